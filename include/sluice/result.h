// Result<T>: a value or an Error. Everything that depends on a file, on user input or on a device returns one.
#pragma once
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sluice {

enum class Code : uint8_t {
  invalid_argument = 1,  // the numbers are those of sluice.h
  not_found,
  unsupported,
  corrupt_file,
  out_of_memory,
  device_lost,
  cancelled,
  io,
  internal,
};

// Where an Error was made. (std::source_location is missing from clang before 16.)
struct SourceLocation {
  const char* file = "";
  const char* function = "";
  unsigned line = 0;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          unsigned line = __builtin_LINE()) {
    return {file, function, line};
  }
};

// The message is one line: WHAT went wrong; what the user can do about it.
struct Error {
  Code code = Code::internal;
  std::string message;
  SourceLocation where;

  Error(Code error_code, std::string text, SourceLocation at = SourceLocation::current())
      : code(error_code), message(std::move(text)), where(at) {}
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  bool has_value() const { return state_.index() == 0; }
  T& value() {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }
  const Error& error() const {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  bool has_value() const { return !error_; }
  void value() const {}
  Error& error() {
    assert(error_);
    return *error_;
  }
  const Error& error() const {
    assert(error_);
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

namespace detail {
template <class T>
T take(Result<T>&& result) {
  return std::move(*result);
}
inline void take(Result<void>&&) {}
}  // namespace detail

}  // namespace sluice

// TRY(expression): the value of a Result, or return its Error from the enclosing function.
#define TRY(...)                                             \
  __extension__({                                            \
    auto try_result_ = (__VA_ARGS__);                        \
    if (!try_result_) return std::move(try_result_.error()); \
    ::sluice::detail::take(std::move(try_result_));          \
  })
