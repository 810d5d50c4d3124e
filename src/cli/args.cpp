#include "cli/args.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

Strings split(std::string_view text, char separator) {
  Strings parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

// Words of `text` in lines of at most `width`, each line after the first indented.
std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

}  // namespace

Result<std::vector<uint32_t>> parse_list(std::string_view option, std::string_view text, uint32_t min, uint32_t max) {
  std::vector<uint32_t> values;
  for (const std::string& part : split(text, ',')) values.push_back(TRY(parse_number(option, part, min, max)));
  return values;
}

std::string nearest(std::string_view word, const Strings& words) {
  std::string best;
  size_t best_distance = 3;
  for (const std::string& candidate : words) {
    const size_t distance = edit_distance(word.substr(0, 64), candidate);
    if (distance < best_distance && distance < candidate.size() - 1) best = candidate, best_distance = distance;
  }
  return best;
}

void Args::option(std::string_view names, std::string value, std::string help, Apply apply) {
  options_.push_back({split(names, ','), std::move(value), std::move(help), group_, std::move(apply), {}});
}

void Args::flag(std::string_view names, bool& target, std::string help) {
  option(names, "", std::move(help), [&target](std::string_view) -> Result<void> {
    target = true;
    return {};
  });
}

void Args::text(std::string_view names, std::string value, std::string& target, std::string help) {
  option(names, std::move(value), std::move(help), [&target](std::string_view v) -> Result<void> {
    target = v;
    return {};
  });
}

void Args::later(std::string_view names, bool takes_value) {
  option(names, takes_value ? "X" : "", "", [name = last_name(names)](std::string_view) -> Result<void> {
    return usage_error(fmt::format("{} is not part of this version yet; leave it out", name));
  });
}

void Args::ignored(std::string_view names, bool takes_value, Strings optional_values) {
  const std::string first = split(names, ',')[0];
  option(names, takes_value ? "X" : "", "", [this, first](std::string_view) -> Result<void> {
    given_ignored_.push_back(first);
    return {};
  });
  options_.back().optional_values = std::move(optional_values);
}

std::string Args::last_name(std::string_view names) { return std::string(names.substr(names.rfind(',') + 1)); }

const Args::Option* Args::find(std::string_view name) const {
  for (const Option& option : options_)
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
  return nullptr;
}

Error Args::unknown(std::string_view name) const {
  Strings names{"--help", "--version"};
  for (const Option& option : options_)
    if (!option.help.empty()) names.insert(names.end(), option.names.begin(), option.names.end());
  const std::string command = usage_.substr(0, usage_.find(' '));
  const std::string guess = nearest(name, names);
  const std::string remedy =
      guess.empty() ? fmt::format("see sluice {} --help", command) : fmt::format("did you mean {}?", guess);
  return usage_error(fmt::format("unknown option {} for {}; {}", printable(name), command, remedy));
}

Result<bool> Args::parse(std::span<const std::string> argv) {
  bool only_rest = false;
  for (size_t i = 0; i < argv.size(); ++i) {
    const std::string& argument = argv[i];
    if (only_rest || argument.size() < 2 || argument[0] != '-') {
      rest_.push_back(argument);
      continue;
    }
    if (argument == "--") {
      only_rest = true;
      continue;
    }
    if (argument == "-h" || argument == "--help") {
      TRY(put(help()));
      return false;
    }
    if (argument == "--version") {
      TRY(put(version_line()));
      return false;
    }
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    const Option* option = find(name);
    if (option == nullptr) return unknown(name);
    std::string value;
    if (option->value.empty()) {
      if (equals != std::string::npos)
        return usage_error(fmt::format("{} takes no value; leave out what follows '='", name));
      const Strings& optional = option->optional_values;
      if (i + 1 < argv.size() && std::find(optional.begin(), optional.end(), argv[i + 1]) != optional.end()) ++i;
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < argv.size()) {
      value = argv[++i];
    } else {
      return usage_error(fmt::format("{} needs a value, {}; see --help", name, option->value));
    }
    TRY(option->apply(value));
  }
  return true;
}

std::string Args::help() const {
  constexpr size_t kColumn = 30, kWidth = 100;
  std::string out = fmt::format("usage: sluice {}\n\n{}\n", usage_, about_);
  std::string title;
  for (const Option& option : options_) {
    if (option.help.empty()) continue;
    if (option.group != title) out += fmt::format("\n{}:\n", title = option.group);
    std::string left =
        fmt::format("  {}{}{}", fmt::join(option.names, ", "), option.value.empty() ? "" : " ", option.value);
    left += left.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - left.size(), ' ');
    out += left + wrapped(option.help, kColumn, kWidth) + "\n";
  }
  return out;
}

}  // namespace sluice::cli
