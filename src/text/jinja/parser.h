// Tokens to a tree, with Jinja's precedences. Throws Failure with the line.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace skipjack::jinja {

// `nesting` bounds how deep expressions and blocks may nest.
Block ParseTemplate(std::string_view source, int nesting);

}  // namespace skipjack::jinja
