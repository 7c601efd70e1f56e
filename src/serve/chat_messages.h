// The messages of a chat as templates expect them, by one rule for both protocols.
#pragma once

#include "base/status.h"
#include "serve/json_checked.h"

namespace skipjack {

// A chat may be nested this deep, the arguments of its tool calls included.
inline constexpr int kMaxChatNesting = 64;

// `messages` is what a client sent under that name, any JSON within the limits of a request. Text parts of a
// message are joined by a line break, the role "developer" becomes "system", and arguments of earlier tool
// calls that came as a string of JSON become objects. InvalidArgument names the place:
// "messages[0].content[1].type must be ...".
Status NormalizeMessages(Json* messages);

}  // namespace skipjack
