// Measures what a CPU can do at best: memory bandwidth by STREAM's triad, and the peak of fused multiply-adds in float
// and double. Takes the bytes of one array; prints one line each of rates, `triad` in GB/s, `fp32`, `fp64` in GFLOP/s.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 40;        // many: the best of them is reported, and it needs one quiet moment
constexpr double kBudgetSeconds = 0.7;  // per ceiling, so that all is done within four seconds
constexpr double kTargetSeconds = 0.03;  // per repetition of the FMA loop: far above the clock's grain and thread start

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Latency of 4 or 5 cycles times 2 pipes needs 8 to 10 chains in flight; 12 and two operands still fit 16 registers.
constexpr int kChains = 12;

volatile double sink;
volatile float factor_source = 0.999F;  // volatile: the compiler must not know it, or it could fold the loop

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <typename Work>
void report(const char* name, double giga_units, Work&& work) {
  std::printf("%s", name);
  work();  // starts the threads, faults in the pages, lets the clock rise
  const auto begin = Clock::now();
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const auto start = Clock::now();
    work();
    std::printf(" %.6g", giga_units / seconds_since(start));
    if (seconds_since(begin) > kBudgetSeconds) break;
  }
  std::printf("\n");
}

void triad(std::size_t bytes) {
  const long n = static_cast<long>(bytes / sizeof(double));
  auto* __restrict a = static_cast<double*>(std::malloc(bytes));
  auto* __restrict b = static_cast<double*>(std::malloc(bytes));
  auto* __restrict c = static_cast<double*>(std::malloc(bytes));
  if (a == nullptr || b == nullptr || c == nullptr) std::exit(2);
  // Each page is first touched by the thread that will use it, so it lies in that thread's memory.
#pragma omp parallel for schedule(static)
  for (long i = 0; i < n; ++i) {
    a[i] = 0.0;
    b[i] = 1.0;
    c[i] = 2.0;
  }
  const double scale = factor_source;
  report("triad", 3.0 * sizeof(double) * static_cast<double>(n) / 1e9, [=] {
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; ++i) a[i] = b[i] + scale * c[i];
  });
  sink = a[n / 2];
  std::free(a);
  std::free(b);
  std::free(c);
}

template <typename T>
double multiply_add(long steps) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  const T factor_value = static_cast<T>(factor_source);
  const Vector factor = Vector{} + factor_value;
  const Vector addend = Vector{} + (T(1) - factor_value);
  Vector chains[kChains];
  for (int k = 0; k < kChains; ++k) chains[k] = Vector{} + T(k);
  for (long step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) chains[k] = chains[k] * factor + addend;
  }
  Vector total{};
  for (int k = 0; k < kChains; ++k) total += chains[k];
  return static_cast<double>(total[0]);
}

template <typename T>
int multiply_add_on_all_threads(long steps) {
  int threads = 0;
  double total = 0.0;
#pragma omp parallel reduction(+ : threads, total)
  {
    threads += 1;
    total += multiply_add<T>(steps);
  }
  sink = total;
  return threads;
}

template <typename T>
void peak(const char* name) {
  long steps = 1L << 16;
  int threads = 1;
  for (double seconds = 0.0; seconds < kTargetSeconds; steps *= 2) {
    const auto start = Clock::now();
    threads = multiply_add_on_all_threads<T>(steps);
    seconds = seconds_since(start);
  }
  const double lanes = kVectorBytes / static_cast<double>(sizeof(T));
  const double operations = 2.0 * lanes * kChains * static_cast<double>(steps) * threads;
  report(name, operations / 1e9, [steps] { multiply_add_on_all_threads<T>(steps); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  triad(std::strtoull(argv[1], nullptr, 10));
  peak<float>("fp32");
  peak<double>("fp64");
}
