#include "large.cuh"

#include <cstdio>

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 3, size = argc > 2 ? atoi(argv[2]) : 1000;
    printf("%g\n", all<int, float, double, unsigned char>(count, size) + second(count, size));
}
