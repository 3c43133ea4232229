// Stands in for libtorch_cpu and libc10 where a thin artifact runs without Python and torch: contiguous CPU tensors,
// registration, and a call by name. Operators that torch would compute end the program and say so.
#include "standalone.h"

#include <kernel_lsp/abi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Storage {
  void* data = nullptr;
  bool owned = true;
  ~Storage() {
    if (owned) std::free(data);
  }
};

struct Type {
  const char* name;
  int32_t code;  // c10::ScalarType, whose numbers torch has never changed
  int64_t bytes;
};
constexpr Type kTypes[] = {{"uint8", 0, 1},   {"int8", 1, 1},    {"int16", 2, 2},   {"int32", 3, 4},   {"int64", 4, 8},
                           {"float16", 5, 2}, {"float32", 6, 4}, {"float64", 7, 8}, {"bool", 11, 1},   {"bfloat16", 15, 2},
                           {"complex64", 9, 8}, {"complex128", 10, 16}};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(3);
}

const Type& type_of(int32_t code) {
  for (const Type& type : kTypes)
    if (type.code == code) return type;
  die("a scalar type that is not known without torch");
}

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= std::max<int64_t>(sizes[i], 1)) strides[i] = step;
  return strides;
}

} // namespace

struct AtenTensorOpaque {
  std::shared_ptr<Storage> storage;  // null: undefined
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in elements
  int32_t type = 6;

  char* data() const { return static_cast<char*>(storage->data) + offset * type_of(type).bytes; }
  bool contiguous() const {
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0; step *= sizes[i])
      if (sizes[i] != 1 && strides[i] != step) return product(sizes) == 0;
    return true;
  }
};

namespace {

AtenTensorHandle allocate(int32_t type, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += sizes[i] > 0 ? (sizes[i] - 1) * strides[i] : 0;
  auto storage = std::make_shared<Storage>();
  // As torch aligns its own allocations, with a little room so that an empty tensor has an address too.
  const size_t bytes = static_cast<size_t>((last + 1) * type_of(type).bytes) + 64;
  if (posix_memalign(&storage->data, 64, bytes) != 0) die("no memory for a tensor");
  return new AtenTensorOpaque{std::move(storage), std::move(sizes), std::move(strides), 0, type};
}

// Visits the elements of equally shaped tensors in row-major order.
template <class F>
void each(const std::vector<int64_t>& sizes, const F& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t n = product(sizes); n > 0; --n) {
    f(index);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

char* element(const AtenTensorOpaque& tensor, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
  return tensor.data() + at * type_of(tensor.type).bytes;
}

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);
struct Operator {
  std::string schema;
  Boxed function = nullptr;
};
std::map<std::string, Operator>& operators() {
  static std::map<std::string, Operator> all;
  return all;
}

} // namespace

class TorchLibraryOpaque {
 public:
  std::string ns;
};

extern "C" {

#define STANDALONE(name, ...) AOTITorchError name(__VA_ARGS__)

STANDALONE(aoti_torch_delete_tensor_object, AtenTensorHandle t) { return delete t, 0; }
STANDALONE(aoti_torch_new_tensor_handle, AtenTensorHandle t, AtenTensorHandle* copy) {
  return *copy = new AtenTensorOpaque(*t), 0;
}
STANDALONE(aoti_torch_new_uninitialized_tensor, AtenTensorHandle* t) { return *t = new AtenTensorOpaque(), 0; }
STANDALONE(aoti_torch_is_defined, AtenTensorHandle t, bool* defined) { return *defined = t->storage != nullptr, 0; }
STANDALONE(aoti_torch_get_data_ptr, AtenTensorHandle t, void** data) { return *data = t->data(), 0; }
STANDALONE(aoti_torch_get_dim, AtenTensorHandle t, int64_t* dim) { return *dim = int64_t(t->sizes.size()), 0; }
STANDALONE(aoti_torch_get_numel, AtenTensorHandle t, int64_t* numel) { return *numel = product(t->sizes), 0; }
STANDALONE(aoti_torch_get_sizes, AtenTensorHandle t, int64_t** sizes) { return *sizes = t->sizes.data(), 0; }
STANDALONE(aoti_torch_get_strides, AtenTensorHandle t, int64_t** strides) { return *strides = t->strides.data(), 0; }
STANDALONE(aoti_torch_get_dtype, AtenTensorHandle t, int32_t* dtype) { return *dtype = t->type, 0; }
STANDALONE(aoti_torch_get_device_type, AtenTensorHandle, int32_t* type) { return *type = 0, 0; }
STANDALONE(aoti_torch_get_device_index, AtenTensorHandle, int32_t* index) { return *index = -1, 0; }
STANDALONE(aoti_torch_get_storage_offset, AtenTensorHandle t, int64_t* offset) { return *offset = t->offset, 0; }
STANDALONE(aoti_torch_is_contiguous, AtenTensorHandle t, bool* contiguous) { return *contiguous = t->contiguous(), 0; }
STANDALONE(aoti_torch_empty_strided, int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t,
           int32_t, AtenTensorHandle* t) {
  return *t = allocate(dtype, {sizes, sizes + dim}, {strides, strides + dim}), 0;
}
STANDALONE(aoti_torch_create_tensor_from_blob, void* data, int64_t dim, const int64_t* sizes, const int64_t* strides,
           int64_t offset, int32_t dtype, int32_t, int32_t, AtenTensorHandle* t) {
  auto storage = std::make_shared<Storage>(Storage{data, false});
  *t = new AtenTensorOpaque{std::move(storage), {sizes, sizes + dim}, {strides, strides + dim}, offset, dtype};
  return 0;
}
STANDALONE(aoti_torch_zero_, AtenTensorHandle t) {
  const size_t bytes = static_cast<size_t>(type_of(t->type).bytes);
  if (t->contiguous()) return std::memset(t->data(), 0, bytes * size_t(product(t->sizes))), 0;
  each(t->sizes, [&](const auto& index) { std::memset(element(*t, index), 0, bytes); });
  return 0;
}
STANDALONE(aoti_torch_aten_fill__Scalar, AtenTensorHandle t, double value) {
  each(t->sizes, [&](const auto& index) {
    char* p = element(*t, index);
    switch (t->type) {
      case 0: case 1: case 11: *reinterpret_cast<int8_t*>(p) = static_cast<int8_t>(value); break;
      case 2: *reinterpret_cast<int16_t*>(p) = static_cast<int16_t>(value); break;
      case 3: *reinterpret_cast<int32_t*>(p) = static_cast<int32_t>(value); break;
      case 4: *reinterpret_cast<int64_t*>(p) = static_cast<int64_t>(value); break;
      case 6: *reinterpret_cast<float*>(p) = static_cast<float>(value); break;
      case 7: *reinterpret_cast<double*>(p) = value; break;
      default: die("fill_ of this scalar type needs torch");
    }
  });
  return 0;
}
STANDALONE(aoti_torch_copy_, AtenTensorHandle to, AtenTensorHandle from, int32_t) {
  if (to->type != from->type || to->sizes != from->sizes) die("copy_ between types or shapes needs torch");
  const size_t bytes = static_cast<size_t>(type_of(to->type).bytes);
  each(to->sizes, [&](const auto& index) { std::memcpy(element(*to, index), element(*from, index), bytes); });
  return 0;
}
STANDALONE(aoti_torch_aten_subtract_Tensor, AtenTensorHandle, AtenTensorHandle, double, AtenTensorHandle*) {
  die("aten::sub needs torch");
}
STANDALONE(aoti_torch_cpu_add_Tensor, AtenTensorHandle, AtenTensorHandle, double, AtenTensorHandle*) {
  die("aten::add needs torch");
}
bool aoti_torch_grad_mode_is_enabled() { return false; }
void aoti_torch_grad_mode_set_enabled(bool) {}
void aoti_torch_warn(const char*, const char*, uint32_t, const char* message) { std::fprintf(stderr, "%s\n", message); }

STANDALONE(torch_call_dispatcher, const char* name, const char*, StableIValue* stack, uint64_t) {
  const std::string op = name;
  const auto self = reinterpret_cast<AtenTensorHandle>(stack[0]);
  AtenTensorHandle result = nullptr;
  if (op == "aten::empty_like" && self->contiguous()) {
    int32_t type = self->type;
    if (stack[1] != 0) type = static_cast<int32_t>(*std::unique_ptr<StableIValue>(reinterpret_cast<StableIValue*>(stack[1])));
    result = allocate(type, self->sizes, row_major(self->sizes));
  } else if (op == "aten::clone" || op == "aten::contiguous") {
    result = allocate(self->type, self->sizes, row_major(self->sizes));
    aoti_torch_copy_(result, self, 0);
  } else if (op == "aten::detach") {
    result = new AtenTensorOpaque(*self);
  } else if (op == "aten::select") {
    int64_t d = static_cast<int64_t>(stack[1]), index = static_cast<int64_t>(stack[2]);
    if (d < 0) d += int64_t(self->sizes.size());
    if (index < 0) index += self->sizes[size_t(d)];
    result = new AtenTensorOpaque(*self);
    result->offset += index * self->strides[size_t(d)];
    result->sizes.erase(result->sizes.begin() + d);
    result->strides.erase(result->strides.begin() + d);
  } else {
    die(op + " needs torch");
  }
  delete self;
  stack[0] = reinterpret_cast<StableIValue>(result);
  return 0;
}

struct StableListOpaque {
  std::vector<StableIValue> items;
};
STANDALONE(torch_new_list_reserve_size, size_t, StableListHandle* list) { return *list = new StableListOpaque, 0; }
STANDALONE(torch_list_size, StableListHandle list, size_t* size) { return *size = list->items.size(), 0; }
STANDALONE(torch_list_get_item, StableListHandle list, size_t i, StableIValue* item) { return *item = list->items[i], 0; }
STANDALONE(torch_list_push_back, StableListHandle list, StableIValue item) { return list->items.push_back(item), 0; }
STANDALONE(torch_delete_list, StableListHandle list) { return delete list, 0; }
struct StringOpaque {
  std::string text;
};
STANDALONE(torch_new_string_handle, const char* data, size_t length, StringHandle* string) {
  return *string = new StringOpaque{{data, length}}, 0;
}
STANDALONE(torch_delete_string, StringHandle string) { return delete string, 0; }
STANDALONE(torch_string_length, StringHandle string, size_t* length) { return *length = string->text.size(), 0; }
STANDALONE(torch_string_c_str, StringHandle string, const char** data) { return *data = string->text.c_str(), 0; }

STANDALONE(aoti_torch_library_init_def, const char* ns, const char*, uint32_t, TorchLibraryHandle* lib) {
  return *lib = new TorchLibraryOpaque{ns}, 0;
}
STANDALONE(aoti_torch_library_init_fragment, const char* ns, const char*, uint32_t, TorchLibraryHandle* lib) {
  return *lib = new TorchLibraryOpaque{ns}, 0;
}
STANDALONE(aoti_torch_library_init_impl, const char* ns, const char*, const char*, uint32_t, TorchLibraryHandle* lib) {
  return *lib = new TorchLibraryOpaque{ns}, 0;
}
STANDALONE(aoti_torch_library_def, TorchLibraryHandle lib, const char* schema) {
  const std::string text = schema;
  operators()[lib->ns + "::" + text.substr(0, text.find('('))].schema = text;
  return 0;
}
STANDALONE(torch_library_impl, TorchLibraryHandle lib, const char* name, Boxed function, uint64_t) {
  return operators()[lib->ns + "::" + name].function = function, 0;
}
STANDALONE(aoti_torch_delete_library_object, TorchLibraryHandle lib) { return delete lib, 0; }

} // extern "C"

// One thread: cachegrind runs threads one after another, and its counts are of the work, not of its division.
namespace at {
void init_num_threads() {}
void set_num_threads(int) {}
int get_num_threads() { return 1; }
int get_thread_num() { return 0; }
bool in_parallel_region() { return false; }
namespace internal {
void set_thread_num(int) {}
} // namespace internal
} // namespace at
namespace c10 {
class ParallelGuard {
 public:
  static bool is_enabled();
  explicit ParallelGuard(bool state);
  ~ParallelGuard();

 private:
  bool previous_state_;
};
bool ParallelGuard::is_enabled() { return false; }
ParallelGuard::ParallelGuard(bool state) : previous_state_(state) {}
ParallelGuard::~ParallelGuard() {}
} // namespace c10

namespace standalone {
namespace {

// `file bytes dtype sizes`, `0.bin 48 float32 3,4`; `-` for the file means zeros.
StableIValue tensor(const std::string& word) {
  char file[256], dtype[32], sizes[512] = "";
  size_t bytes = 0;
  if (std::sscanf(word.c_str(), "%255s %zu %31s %511s", file, &bytes, dtype, sizes) < 3) die("not a tensor: " + word);
  std::vector<int64_t> shape;
  for (const char* p = sizes; *p; p += *p == ',') {
    char* end = nullptr;
    shape.push_back(std::strtoll(p, &end, 10));
    if (end == p) die("not sizes: " + word);
    p = end;
  }
  const Type* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return !std::strcmp(t.name, dtype); });
  if (type == std::end(kTypes)) die("a tensor of " + std::string(dtype) + " needs torch");
  AtenTensorHandle made = allocate(type->code, shape, row_major(shape));
  if (bytes > static_cast<size_t>(product(shape) * type->bytes)) die("more bytes than elements: " + word);
  std::memset(made->data(), 0, bytes);
  if (std::strcmp(file, "-") != 0) {
    std::FILE* stream = std::fopen(file, "rb");
    if (!stream || std::fread(made->data(), 1, bytes, stream) != bytes) die("cannot read " + std::string(file));
    std::fclose(stream);
  }
  return reinterpret_cast<StableIValue>(made);
}

StableIValue cell(const std::string& type, const std::string& word) {
  StableIValue v = 0;
  if (type.back() == '?') return word.empty() ? 0 : reinterpret_cast<StableIValue>(new StableIValue(cell(type.substr(0, type.size() - 1), word)));
  if (type.rfind("Tensor", 0) == 0 && type.find('[') == std::string::npos) return tensor(word);
  if (type == "int" || type == "SymInt") {
    const int64_t value = std::strtoll(word.c_str(), nullptr, 0);
    std::memcpy(&v, &value, sizeof value);
  } else if (type == "float") {
    const double value = std::strtod(word.c_str(), nullptr);
    std::memcpy(&v, &value, sizeof value);
  } else if (type == "bool") {
    v = word == "true" || word == "True" || word == "1";
  } else {
    die("a parameter of type " + type + " cannot be given without torch");
  }
  return v;
}

std::vector<std::string> types(const std::string& schema) {
  std::vector<std::string> found;
  std::string type;
  int depth = 0;
  bool named = false;
  for (size_t i = schema.find('('); i < schema.size(); ++i) {
    const char c = schema[i];
    if (c == '(' && depth++ == 0) continue;
    if (c == ')' && --depth == 0) break;
    if (depth == 1 && c == ',') {
      if (!type.empty() && type != "*") found.push_back(type);
      type.clear();
      named = false;
    } else if (depth == 1 && c == ' ') {
      named = !type.empty();
    } else if (!named) {
      type += c;
    }
  }
  if (!type.empty() && type != "*") found.push_back(type);
  return found;
}

} // namespace

void call(const std::string& name, const std::vector<std::string>& words) {
  const auto found = operators().find(name);
  if (found == operators().end() || !found->second.function) die("the library has no operator " + name);
  const std::string& schema = found->second.schema;
  const std::vector<std::string> wanted = types(schema);
  if (wanted.size() != words.size()) die(schema + " was given " + std::to_string(words.size()) + " arguments");
  std::vector<StableIValue> stack(std::max<size_t>(words.size(), 64), 0);
  for (size_t i = 0; i < words.size(); ++i) stack[i] = cell(wanted[i], words[i]);
  const std::string results = schema.substr(schema.find("->") + 2);
  uint64_t outputs = 1 + static_cast<uint64_t>(std::count(results.begin(), results.end(), ','));
  if (results.find("()") != std::string::npos) outputs = 0;
  found->second.function(stack.data(), words.size(), outputs);
}

} // namespace standalone
