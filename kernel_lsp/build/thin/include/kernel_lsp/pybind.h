// The part of pybind11 that binds plain functions. They become operators in a namespace named after the library's
// file, `kl_<digest>.so`, so that the same object code serves every artifact it is linked into.
#pragma once

#include <kernel_lsp/library.h>

namespace pybind11 {
inline namespace thin {

struct none {};

std::string spelled(double value);

struct arg_v {
  std::string name;
  std::string value;
};
struct arg {
  explicit constexpr arg(const char* name) : name(name) {}
  template <class T>
  arg_v operator=(T&& value) const {
    return {name, text_of(value)};
  }
  const char* name;

 private:
  template <class T>
  static std::string text_of(const T& value) {
    using D = std::decay_t<T>;
    if constexpr (std::is_same_v<D, bool>) {
      return value ? "True" : "False";
    } else if constexpr (std::is_integral_v<D>) {
      return std::to_string(value);
    } else if constexpr (std::is_floating_point_v<D>) {
      return spelled(static_cast<double>(value));
    } else if constexpr (std::is_same_v<D, none> || std::is_same_v<D, std::nullopt_t>) {
      return "None";
    } else {
      static_assert(std::is_convertible_v<T, std::string>, "a default that no operator schema can hold");
      return "\"" + std::string(value) + "\"";
    }
  }
};
inline namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
} // namespace literals

struct gil_scoped_release {};
template <class...>
struct call_guard {};

class module_ {
 public:
  explicit module_(kernel_lsp::Registry& registry) : registry_(registry) {}
  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    using Pointer = typename kernel_lsp::Signature<std::decay_t<F>>::Pointer;
    std::vector<std::string> names, defaults;
    (note(names, defaults, extra), ...);
    registry_.define(kernel_lsp::schema_of<Pointer>(name, names, defaults, "arg"));
    registry_.implement(name, static_cast<Pointer>(function));
    return *this;
  }
  std::string& doc() { return doc_; }

 private:
  using Texts = std::vector<std::string>;
  static void note(Texts&, Texts&, const char*) {}
  template <class... T>
  static void note(Texts&, Texts&, const call_guard<T...>&) {}
  static void note(Texts& names, Texts& defaults, const arg& a) {
    names.push_back(a.name);
    defaults.emplace_back();
  }
  static void note(Texts& names, Texts& defaults, const arg_v& a) {
    names.push_back(a.name);
    defaults.push_back(a.value);
  }
  kernel_lsp::Registry& registry_;
  std::string doc_;
};
using module = module_;

} // namespace thin
} // namespace pybind11

namespace py = pybind11;

namespace kernel_lsp {

struct ModuleInit {
  ModuleInit(void (*init)(pybind11::module_&), const char* file, uint32_t line);
  Registry registry;
};

} // namespace kernel_lsp

#define PYBIND11_MODULE(name, m, ...)                                                                        \
  static void C10_CONCATENATE(kernel_lsp_module_, name)(::pybind11::module_&);                               \
  static const ::kernel_lsp::ModuleInit C10_CONCATENATE(kernel_lsp_module_init_, name)(                      \
      &C10_CONCATENATE(kernel_lsp_module_, name), __FILE__, static_cast<uint32_t>(__LINE__));                \
  static void C10_CONCATENATE(kernel_lsp_module_, name)([[maybe_unused]] ::pybind11::module_ & m)
