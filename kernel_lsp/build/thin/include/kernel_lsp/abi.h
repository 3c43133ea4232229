// The functions of torch's stable C ABI that the thin layer calls, and nothing else of torch's.
// Declared here and not taken from torch's shim.h, which takes four times as long to read.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
struct StableListOpaque;
using StableListHandle = StableListOpaque*;
struct StringOpaque;
using StringHandle = StringOpaque*;
class TorchLibraryOpaque;
using TorchLibraryHandle = TorchLibraryOpaque*;
using StableIValue = uint64_t;
using AOTITorchError = int32_t;

AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle tensor, AtenTensorHandle* copy);
AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle* tensor);
AOTITorchError aoti_torch_is_defined(AtenTensorHandle tensor, bool* defined);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* dim);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* numel);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** strides);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* dtype);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* type);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* index);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t* offset);
AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle tensor, bool* contiguous);
AOTITorchError aoti_torch_empty_strided(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device_type, int32_t device_index, AtenTensorHandle* tensor);
AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t dim, const int64_t* sizes,
                                                  const int64_t* strides, int64_t offset, int32_t dtype,
                                                  int32_t device_type, int32_t device_index,
                                                  AtenTensorHandle* tensor);
AOTITorchError aoti_torch_zero_(AtenTensorHandle tensor);
AOTITorchError aoti_torch_aten_fill__Scalar(AtenTensorHandle tensor, double value);
AOTITorchError aoti_torch_aten_subtract_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha,
                                               AtenTensorHandle* result);
AOTITorchError aoti_torch_cpu_add_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha,
                                         AtenTensorHandle* result);
AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle source, int32_t non_blocking);
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool enabled);
void aoti_torch_warn(const char* function, const char* file, uint32_t line, const char* message);

AOTITorchError torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t version);
AOTITorchError torch_new_list_reserve_size(size_t size, StableListHandle* list);
AOTITorchError torch_list_size(StableListHandle list, size_t* size);
AOTITorchError torch_list_get_item(StableListHandle list, size_t index, StableIValue* element);
AOTITorchError torch_list_push_back(StableListHandle list, StableIValue element);
AOTITorchError torch_delete_list(StableListHandle list);
AOTITorchError torch_new_string_handle(const char* data, size_t length, StringHandle* string);
AOTITorchError torch_delete_string(StringHandle string);
AOTITorchError torch_string_length(StringHandle string, size_t* length);
AOTITorchError torch_string_c_str(StringHandle string, const char** data);

AOTITorchError aoti_torch_library_init_def(const char* ns, const char* file, uint32_t line, TorchLibraryHandle* lib);
AOTITorchError aoti_torch_library_init_fragment(const char* ns, const char* file, uint32_t line,
                                                TorchLibraryHandle* lib);
AOTITorchError aoti_torch_library_init_impl(const char* ns, const char* key, const char* file, uint32_t line,
                                            TorchLibraryHandle* lib);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle lib, const char* schema);
AOTITorchError torch_library_impl(TorchLibraryHandle lib, const char* name,
                                  void (*function)(StableIValue*, uint64_t, uint64_t), uint64_t version);
AOTITorchError aoti_torch_delete_library_object(TorchLibraryHandle lib);

// From torch 2.13 on; without it a message is printed to stderr by torch itself.
const char* torch_exception_get_what_without_backtrace() __attribute__((weak));
}

namespace kernel_lsp {
// What is passed to and from torch has the form of this release, whichever later one is running.
constexpr uint64_t kAbi = (uint64_t{2} << 56) | (uint64_t{10} << 48);
} // namespace kernel_lsp
