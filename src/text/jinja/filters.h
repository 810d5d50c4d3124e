#pragma once
#include <string_view>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// The filters on lists and dicts.
Builtin find_list_filter(std::string_view name);

}  // namespace sluice::text::jinja
