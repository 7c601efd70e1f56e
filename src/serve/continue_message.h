// continue_final_message: the model goes on with the last message instead of answering it.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace skipjack {

// Cuts a rendered chat right behind `content`, the text of its last message, so that no end-of-turn follows.
// The text is looked for in untrusted segments only: what the template wrote may spell the same
// ("assistant"). Templates often trim messages; blanks at the end of `content` survive if the template kept
// them. InvalidArgument when the template did not render the text in one piece.
Status CutAfterFinalMessage(std::string_view content, std::vector<Segment>* segments);

}  // namespace skipjack
