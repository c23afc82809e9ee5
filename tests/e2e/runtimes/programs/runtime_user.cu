// Calls a library that has a runtime of its own (runtime_library.cu) and that the program is linked to.
#include <cstdio>
extern "C" int twice(int);
int main() { printf("%d\n", twice(21)); }
