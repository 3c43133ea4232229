// at::parallel_for and parallel_reduce: torch's own threads, chunks and guards, so that timings are those of its build.
#pragma once

#include <kernel_lsp/error.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#ifdef _OPENMP
#include <omp.h>
#endif

// Exported by libtorch_cpu and libc10 under these very names since torch 1.x.
namespace c10 {
class __attribute__((visibility("default"))) ParallelGuard {
 public:
  static bool is_enabled();
  explicit ParallelGuard(bool state);
  ~ParallelGuard();

 private:
  bool previous_state_;
};
} // namespace c10

namespace at {

void init_num_threads();
void set_num_threads(int threads);
int get_num_threads();
int get_thread_num();
bool in_parallel_region();
namespace internal {
void set_thread_num(int id);
} // namespace internal

inline namespace thin {

inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }

namespace parallel {

inline void lazy_init_num_threads() {
  thread_local bool initialised = false;
  if (C10_UNLIKELY(!initialised)) {
    at::init_num_threads();
    initialised = true;
  }
}

class ThreadIdGuard {
 public:
  explicit ThreadIdGuard(int id) : before_(at::get_thread_num()) { at::internal::set_thread_num(id); }
  ~ThreadIdGuard() { at::internal::set_thread_num(before_); }

 private:
  int before_;
};

// As in ATen/ParallelOpenMP.h.
template <class F>
void invoke(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
#ifdef _OPENMP
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr error;
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads();
    if (grain_size > 0) threads = std::min(threads, divup(end - begin, grain_size));
    const int64_t id = omp_get_thread_num();
    const int64_t chunk = divup(end - begin, threads);
    const int64_t first = begin + id * chunk;
    if (first < end) {
      try {
        ThreadIdGuard thread(static_cast<int>(id));
        f(first, std::min(end, chunk + first));
      } catch (...) {
        if (!failed.test_and_set()) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
#else
  f(begin, end);
#endif
}

inline bool worthwhile(int64_t begin, int64_t end, int64_t grain_size) {
#ifdef _OPENMP
  lazy_init_num_threads();
  const int64_t count = end - begin;
  return count > grain_size && count > 1 && !at::in_parallel_region() && at::get_num_threads() > 1;
#else
  return false;
#endif
}

} // namespace parallel

template <class F>
inline void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  if (begin >= end) return;
  if (!parallel::worthwhile(begin, end, grain_size)) {
    parallel::ThreadIdGuard thread(0);
    c10::ParallelGuard guard(true);
    f(begin, end);
    return;
  }
  parallel::invoke(begin, end, grain_size, [&](int64_t first, int64_t last) {
    c10::ParallelGuard guard(true);
    f(first, last);
  });
}

template <class scalar_t, class F, class SF>
inline scalar_t parallel_reduce(int64_t begin, int64_t end, int64_t grain_size, const scalar_t ident, const F& f,
                                const SF& sf) {
  TORCH_CHECK(grain_size >= 0);
  if (begin >= end) return ident;
  if (!parallel::worthwhile(begin, end, grain_size)) {
    parallel::ThreadIdGuard thread(0);
    c10::ParallelGuard guard(true);
    return f(begin, end, ident);
  }
  const int threads = at::get_num_threads();
  const std::unique_ptr<scalar_t[]> results(new scalar_t[threads]);
  std::fill_n(results.get(), threads, ident);
  parallel::invoke(begin, end, grain_size, [&](int64_t first, int64_t last) {
    const auto id = at::get_thread_num();
    c10::ParallelGuard guard(true);
    results[id] = f(first, last, ident);
  });
  scalar_t result = ident;
  for (int i = 0; i < threads; ++i) result = sf(result, results[i]);
  return result;
}

} // namespace thin
} // namespace at
