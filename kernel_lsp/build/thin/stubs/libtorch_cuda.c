/* Names that torch's libtorch_cuda exports and the thin layer calls; see thin/support.py. */
#define STUB(name) void name(void) {}
STUB(aoti_torch_get_current_cuda_stream)
