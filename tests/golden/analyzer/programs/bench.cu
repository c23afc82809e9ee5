// All bench_*.cuh in one translation unit, a namespace each: one compilation instead of seven. Their headers come first, so that none
// is included inside a namespace.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gaussian {
#include "bench_gaussian.cuh"
}
namespace histogram {
#include "bench_histogram.cuh"
}
namespace hotspot {
#include "bench_hotspot.cuh"
}
namespace jacobi {
#include "bench_jacobi.cuh"
}
namespace nw {
#include "bench_nw.cuh"
}
namespace particle_filter {
#include "bench_particle_filter.cuh"
}
namespace sort {
#include "bench_sort.cuh"
}

int main(int argc, char **argv) {
    return gaussian::main(argc, argv) + histogram::main(argc, argv) + hotspot::main(argc, argv) + jacobi::main(argc, argv) + nw::main(argc, argv) + particle_filter::main(argc, argv) + sort::main(argc, argv);
}
