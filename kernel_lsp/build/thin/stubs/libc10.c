/* Names that torch's libc10 exports and the thin layer calls; see thin/support.py. */
#define STUB(name) void name(void) {}
STUB(_ZN3c1013ParallelGuard10is_enabledEv)
STUB(_ZN3c1013ParallelGuardC1Eb)
STUB(_ZN3c1013ParallelGuardD1Ev)
