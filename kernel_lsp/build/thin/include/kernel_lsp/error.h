// c10::Error and the checks that throw it.
#pragma once

#include <kernel_lsp/abi.h>
#include <torch/headeronly/macros/Macros.h>

#include <exception>
#include <sstream>
#include <string>
#include <utility>

// The inline namespace keeps every name here apart from torch's own in the same process: an exception of torch's
// layout is never caught as one of ours, nor the reverse.
namespace c10 {
inline namespace thin {

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override;
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  const std::string& msg() const { return message_; }

 private:
  std::string message_;
};

template <class... Args>
[[gnu::noinline]] std::string str(const Args&... args) {
  std::ostringstream out;
  ((out << args), ...);
  return std::move(out).str();
}

} // namespace thin
} // namespace c10

namespace kernel_lsp {

[[noreturn, gnu::cold]] void fail(std::string message);
// After a call into torch that failed: with torch's own words where it keeps them (from 2.13 on).
[[noreturn, gnu::cold]] void fail_call();

template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail_check(const char* condition, const Args&... args) {
  if constexpr (sizeof...(args) == 0) {
    fail(std::string("Expected ") + condition +
         " to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement "
         "request to PyTorch.)");
  } else {
    fail(c10::str(args...));
  }
}

// For the results of the C ABI.
inline void ok(AOTITorchError code) {
  if (__builtin_expect(code != 0, 0)) fail_call();
}

} // namespace kernel_lsp

#define TORCH_CHECK(cond, ...)                              \
  if (C10_UNLIKELY(!(cond))) {                              \
    ::kernel_lsp::fail_check(#cond, ##__VA_ARGS__);         \
  }
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(cond, argN, ...) TORCH_CHECK(cond, "invalid argument ", argN, ": ", ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...)                                                                       \
  if (C10_UNLIKELY(!(cond))) {                                                                                 \
    ::kernel_lsp::fail_check(#cond, #cond " INTERNAL ASSERT FAILED at " __FILE__ ":", __LINE__,                \
                             ", please report a bug to PyTorch. ", ##__VA_ARGS__);                             \
  }
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false)                               \
  C10_EXPAND_MSVC_WORKAROUND(TORCH_INTERNAL_ASSERT(__VA_ARGS__))
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#endif
#define C10_EXPAND_MSVC_WORKAROUND(x) x
#define AT_ASSERT(cond) TORCH_INTERNAL_ASSERT(cond)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) ::kernel_lsp::fail(::c10::str(__VA_ARGS__))
#define TORCH_WARN(...) \
  aoti_torch_warn(__func__, __FILE__, static_cast<uint32_t>(__LINE__), ::c10::str(__VA_ARGS__).c_str());
#define TORCH_WARN_ONCE(...)                                                          \
  do {                                                                                \
    static const bool warned = [&] {                                                  \
      TORCH_WARN(__VA_ARGS__) return true;                                            \
    }();                                                                              \
    (void)warned;                                                                     \
  } while (false)
#define TORCH_CHECK_OP(a, b, op) TORCH_CHECK((a)op(b), "Check failed: " #a " " #op " " #b " (", a, " vs. ", b, "). ")
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK_OP(a, b, ==)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK_OP(a, b, !=)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK_OP(a, b, <=)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK_OP(a, b, <)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK_OP(a, b, >=)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK_OP(a, b, >)
