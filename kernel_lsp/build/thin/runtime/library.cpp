// Registration of functions as torch operators, apart from the user's file so that it is compiled once.
#include <kernel_lsp/pybind.h>

#include <dlfcn.h>

#include <array>
#include <limits>
#include <map>

namespace kernel_lsp {
namespace {

std::vector<std::string> split_top(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (part.find_first_not_of(' ') != std::string::npos) parts.push_back(part);
  return parts;
}

// `Tensor(a!) x` → `Tensor`, `int[2] size=1` → `int[]`, `SymInt n` → `int`.
std::string bare_type(const std::string& argument) {
  std::string type;
  int depth = 0;
  for (char c : argument.substr(std::min(argument.find_first_not_of(' '), argument.size()))) {
    if (c == '(') ++depth;
    const bool length = depth == 0 && !type.empty() && type.back() == '[' && c != ']';
    if (c == ' ' && depth == 0) break;
    if (depth == 0 && !length) type += c;
    if (c == ')') --depth;
  }
  if (type.rfind("SymInt", 0) == 0) type = "int" + type.substr(6);
  return type;
}

// The parameter types of `name(…) -> …`.
std::vector<std::string> schema_types(const std::string& schema) {
  const size_t open = schema.find('(');
  int depth = 0;
  size_t close = open;
  for (; close < schema.size(); ++close) {
    depth += (schema[close] == '(') - (schema[close] == ')');
    if (depth == 0) break;
  }
  std::vector<std::string> types;
  for (const std::string& argument : split_top(schema.substr(open + 1, close - open - 1))) {
    const std::string type = bare_type(argument);
    if (type != "*") types.push_back(type);
  }
  return types;
}

struct Operator {
  BoxedCall call;
  void (*function)();
  std::string name;
  std::vector<std::string> types;
  bool checked;
};

std::vector<Operator>& operators() {
  static std::vector<Operator> list;
  return list;
}
std::map<std::string, std::string>& schemas() {
  static std::map<std::string, std::string> by_name;
  return by_name;
}

// torch compares a kernel with its schema when both are registered; here it is done at the first call.
void check(Operator& op) {
  const auto schema = schemas().find(op.name);
  if (schema != schemas().end() && schema_types(schema->second) != op.types)
    fail("the function registered for " + op.name + " does not have the parameters of its schema " + schema->second);
  op.checked = true;
}

void enter(size_t index, StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  Operator& op = operators()[index];
  if (!op.checked) check(op);
  op.call(op.function, stack, inputs, outputs);
}

// Boxed functions get no context from torch, so each registered function is given one of these slots.
using Slot = void (*)(StableIValue*, uint64_t, uint64_t);
template <size_t I>
void slot(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  enter(I, stack, inputs, outputs);
}
template <size_t... I>
constexpr std::array<Slot, sizeof...(I)> make_slots(std::index_sequence<I...>) {
  return {&slot<I>...};
}
constexpr auto kSlots = make_slots(std::make_index_sequence<256>());

} // namespace

Registry::Registry(Kind kind, std::string ns, const char* key, const char* file, uint32_t line)
    : namespace_(std::move(ns)) {
  switch (kind) {
    case Kind::Definition: ok(aoti_torch_library_init_def(namespace_.c_str(), file, line, &library_)); break;
    case Kind::Fragment: ok(aoti_torch_library_init_fragment(namespace_.c_str(), file, line, &library_)); break;
    case Kind::Implementation: ok(aoti_torch_library_init_impl(namespace_.c_str(), key, file, line, &library_)); break;
  }
}

Registry::~Registry() { aoti_torch_delete_library_object(library_); }

void Registry::define(const std::string& schema) {
  schemas()[namespace_ + "::" + schema.substr(0, schema.find('('))] = schema;
  ok(aoti_torch_library_def(library_, schema.c_str()));
}

void Registry::implement(const std::string& name, BoxedCall call, void (*function)(), std::vector<std::string> types) {
  const size_t index = operators().size();
  if (index == kSlots.size()) fail("more operators than the thin layer has room for");
  operators().push_back({call, function, namespace_ + "::" + name, std::move(types), false});
  ok(torch_library_impl(library_, name.c_str(), kSlots[index], kAbi));
}

std::string make_schema(const std::string& name, const std::vector<std::string>& types, const std::vector<bool>& written,
                        const std::vector<std::string>& names, const std::vector<std::string>& defaults,
                        const std::string& results, const char* unnamed) {
  std::string text = name + "(";
  char alias = 'a';
  for (size_t i = 0; i < types.size(); ++i) {
    if (i) text += ", ";
    text += types[i];
    if (written[i]) text += std::string("(") + alias++ + "!)";
    text += " " + (i < names.size() ? names[i] : unnamed + std::to_string(i));
    if (i < defaults.size() && !defaults[i].empty()) text += "=" + defaults[i];
  }
  return text + ") -> " + results;
}

LibraryInit::LibraryInit(Registry::Kind kind, void (*init)(torch::Library&), const char* ns, const char* key,
                         const char* file, uint32_t line)
    : registry(kind, ns, key, file, line) {
  torch::Library library(registry);
  init(library);
}

// The library's file is `kl_<digest>.so`; its stem is the namespace of what it binds.
static std::string artifact_name() {
  Dl_info info{};
  static const char here = 0;
  if (!dladdr(&here, &info) || !info.dli_fname) return "kernel_lsp";
  const std::string path = info.dli_fname;
  const size_t start = path.find_last_of('/') + 1;
  return path.substr(start, path.find('.', start) - start);
}

ModuleInit::ModuleInit(void (*init)(pybind11::module_&), const char* file, uint32_t line)
    : registry(Registry::Kind::Fragment, artifact_name(), nullptr, file, line) {
  pybind11::module_ module(registry);
  init(module);
}

} // namespace kernel_lsp

namespace torch {
inline namespace thin {

Library& Library::def(const char* schema) {
  registry_.define(schema);
  return *this;
}

std::string Library::define(const std::string& name_or_schema, const std::string& inferred) {
  const size_t open = name_or_schema.find('(');
  registry_.define(open == std::string::npos ? inferred : name_or_schema);
  return name_or_schema.substr(0, open);
}

} // namespace thin
} // namespace torch

namespace pybind11 {
inline namespace thin {

std::string spelled(double value) {
  if (value == std::numeric_limits<double>::infinity()) return "inf";
  if (value == -std::numeric_limits<double>::infinity()) return "-inf";
  std::ostringstream out;
  out.precision(17);
  out << value;
  std::string text = out.str();
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

} // namespace thin
} // namespace pybind11
