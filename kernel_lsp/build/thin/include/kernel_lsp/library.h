// Functions to operators: TORCH_LIBRARY and its kin, and what the pybind11 layer registers through.
#pragma once

#include <kernel_lsp/tensor.h>

#include <utility>

namespace kernel_lsp {

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};  // lambdas
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Return = R;
  using Pointer = R (*)(A...);
};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

// What a parameter of type A is kept as during the call.
template <class A>
struct Kept {
  using type = std::decay_t<A>;
};
template <class T>
struct Kept<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class T>
struct Kept<const c10::ArrayRef<T>&> : Kept<c10::ArrayRef<T>> {};
template <class A>
using kept_t = typename Kept<A>::type;

// Written through by the kernel: only a non-const reference to a tensor says so.
template <class A>
constexpr bool is_written = std::is_same_v<A, at::Tensor&>;

template <class A>
constexpr bool is_passable = !std::is_pointer_v<std::decay_t<A>> &&
                             (!std::is_lvalue_reference_v<A> || std::is_const_v<std::remove_reference_t<A>> || is_written<A>);

// Results: nothing, one value, or a tuple.
template <class R>
struct Results {
  static constexpr uint64_t count = 1;
  static std::string schema() { return Value<std::decay_t<R>>::schema(); }
  static void give(StableIValue* stack, const R& value) { stack[0] = Value<std::decay_t<R>>::give(value); }
  static constexpr bool strict = Value<std::decay_t<R>>::strict;
};
template <>
struct Results<void> {
  static constexpr uint64_t count = 0;
  static std::string schema() { return "()"; }
  static constexpr bool strict = true;
};
template <class... R>
struct Results<std::tuple<R...>> {
  static constexpr uint64_t count = sizeof...(R);
  static std::string schema() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + Value<std::decay_t<R>>::schema()), ...);
    return "(" + text + ")";
  }
  static void give(StableIValue* stack, const std::tuple<R...>& values) {
    give_each(stack, values, std::index_sequence_for<R...>());
  }
  static constexpr bool strict = (Value<std::decay_t<R>>::strict && ...);

 private:
  template <size_t... I>
  static void give_each(StableIValue* stack, const std::tuple<R...>& values, std::index_sequence<I...>) {
    ((stack[I] = Value<std::decay_t<R>>::give(std::get<I>(values))), ...);
  }
};
template <class A, class B>
struct Results<std::pair<A, B>> : Results<std::tuple<A, B>> {
  static void give(StableIValue* stack, const std::pair<A, B>& values) {
    Results<std::tuple<A, B>>::give(stack, std::tuple<A, B>(values));
  }
};

template <class P>
struct Boxed;
template <class R, class... A>
struct Boxed<R (*)(A...)> {
  static_assert((is_passable<A> && ...), "the thin layer passes values, const references and Tensor&");
  static constexpr bool strict = Results<R>::strict && (Value<kept_t<A>>::strict && ...);

  static void call(void (*erased)(), StableIValue* stack, uint64_t inputs, uint64_t outputs) {
    if (inputs != sizeof...(A) || outputs != Results<R>::count) fail("the operator's schema has not the function's arguments and results");
    unbox(reinterpret_cast<R (*)(A...)>(erased), stack, std::index_sequence_for<A...>());
  }
  // Types of parameters in schema form, without names.
  static std::vector<std::string> parameters() { return {Value<kept_t<A>>::schema()...}; }
  static std::vector<bool> written() { return {is_written<A>...}; }

 private:
  template <size_t... I>
  static void unbox(R (*function)(A...), StableIValue* stack, std::index_sequence<I...>) {
    // Braces, so that arguments are taken from first to last.
    std::tuple<kept_t<A>...> kept{Value<kept_t<A>>::take(stack[I])...};
    if constexpr (std::is_void_v<R>) {
      function(static_cast<A>(std::get<I>(kept))...);
    } else {
      Results<R>::give(stack, function(static_cast<A>(std::get<I>(kept))...));
    }
  }
};

using BoxedCall = void (*)(void (*function)(), StableIValue* stack, uint64_t inputs, uint64_t outputs);

// Owns torch's library object, so that unloading takes the operators away again.
class Registry {
 public:
  enum class Kind { Definition, Fragment, Implementation };
  Registry(Kind kind, std::string ns, const char* key, const char* file, uint32_t line);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  void define(const std::string& schema);
  template <class P>
  void implement(const std::string& name, P function) {
    static_assert(sizeof(function) == sizeof(void (*)()));
    implement(name, &Boxed<P>::call, reinterpret_cast<void (*)()>(function), Boxed<P>::parameters());
  }

 private:
  void implement(const std::string& name, BoxedCall call, void (*function)(), std::vector<std::string> types);
  std::string namespace_;
  TorchLibraryHandle library_ = nullptr;
};

// `name(Tensor x, Tensor(a!) out) -> ()`; parameters beyond `names` are called `unnamed` and their number, as pybind11
// (arg0, arg1…) and torch::Library (_0, _1…) do.
std::string make_schema(const std::string& name, const std::vector<std::string>& types, const std::vector<bool>& written,
                        const std::vector<std::string>& names, const std::vector<std::string>& defaults,
                        const std::string& results, const char* unnamed);

template <class P>
std::string schema_of(const std::string& name, const std::vector<std::string>& names,
                      const std::vector<std::string>& defaults, const char* unnamed) {
  return make_schema(name, Boxed<P>::parameters(), Boxed<P>::written(), names, defaults,
                     Results<typename Signature<P>::Return>::schema(), unnamed);
}

} // namespace kernel_lsp

namespace torch {
inline namespace thin {

// The part of torch::Library that operators over tensors, numbers and lists use.
class Library {
 public:
  explicit Library(kernel_lsp::Registry& registry) : registry_(registry) {}
  Library& def(const char* schema);
  template <class F>
  Library& def(const char* name_or_schema, F&& function) {
    const auto pointer = checked(std::forward<F>(function));
    using Pointer = std::decay_t<decltype(pointer)>;
    registry_.implement(define(name_or_schema, kernel_lsp::schema_of<Pointer>(name_or_schema, {}, {}, "_")), pointer);
    return *this;
  }
  template <class F>
  Library& impl(const char* name, F&& function) {
    registry_.implement(name, checked(std::forward<F>(function)));
    return *this;
  }

 private:
  template <class F>
  static auto checked(F&& function) {
    using Pointer = typename kernel_lsp::Signature<std::decay_t<F>>::Pointer;
    static_assert(kernel_lsp::Boxed<Pointer>::strict, "torch::Library takes int64_t, double, bool, strings and tensors");
    return static_cast<Pointer>(function);
  }
  // Defines what is written, or `inferred` where only a name is; returns the name.
  std::string define(const std::string& name_or_schema, const std::string& inferred);
  kernel_lsp::Registry& registry_;
};

} // namespace thin
} // namespace torch

namespace kernel_lsp {

struct LibraryInit {
  LibraryInit(Registry::Kind kind, void (*init)(torch::Library&), const char* ns, const char* key, const char* file,
              uint32_t line);
  Registry registry;
};

} // namespace kernel_lsp

#define KERNEL_LSP_LIBRARY(kind, ns, key, m, id)                                                                  \
  static void C10_CONCATENATE(kernel_lsp_library_, id)(torch::Library&);                                          \
  static const ::kernel_lsp::LibraryInit C10_CONCATENATE(kernel_lsp_library_init_, id)(                           \
      ::kernel_lsp::Registry::Kind::kind, &C10_CONCATENATE(kernel_lsp_library_, id), C10_STRINGIZE(ns), key,      \
      __FILE__, static_cast<uint32_t>(__LINE__));                                                                 \
  static void C10_CONCATENATE(kernel_lsp_library_, id)([[maybe_unused]] torch::Library & m)

#define TORCH_LIBRARY(ns, m) KERNEL_LSP_LIBRARY(Definition, ns, nullptr, m, C10_UID)
#define TORCH_LIBRARY_FRAGMENT(ns, m) KERNEL_LSP_LIBRARY(Fragment, ns, nullptr, m, C10_UID)
#define TORCH_LIBRARY_IMPL(ns, k, m) KERNEL_LSP_LIBRARY(Implementation, ns, C10_STRINGIZE(k), m, C10_UID)
#define TORCH_FN(function) (&function)
