// Tokens to a tree.
#pragma once
#include <memory>
#include <string_view>

#include "text/jinja/ast.h"

namespace sluice::text::jinja {

Result<std::unique_ptr<const Ast>> parse(std::string_view text);

}  // namespace sluice::text::jinja
