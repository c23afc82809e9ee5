// Damaged images through every function that takes one: each gives a clear result, soon, reads nothing outside of what was given, and leaves the session
// such that a good module runs.
//
// Usage: images FOLDER SEED FIRST COUNT. The originals are the folder's files. A round that fails is named; FIRST and COUNT run it alone.
#include <cuda_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "driver.h"
#include "mutations.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
void __cudaUnregisterFatBinary(void**);
}

static const double MOST_SECONDS = 5;
static const size_t ROOM = 1 << 20;
static const std::vector<int> CLEAR = {
    CUDA_SUCCESS,           CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
    CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_NOT_FOUND,     CUDA_ERROR_NOT_SUPPORTED,
};
static const std::vector<int> CLEAR_OF_THE_RUNTIME = {
    cudaSuccess,         cudaErrorInvalidValue,   cudaErrorMemoryAllocation, cudaErrorInvalidKernelImage,    cudaErrorNoKernelImageForDevice,
    cudaErrorInvalidPtx, cudaErrorUnsupportedPtxVersion, cudaErrorSymbolNotFound, cudaErrorNotSupported,     cudaErrorInvalidDeviceFunction,
};
static const char* GOOD = PTX_HEADER PTX_FILL;

static size_t round_ = 0;
static const char* doing = "nothing";
static std::map<std::string, std::map<int, int>> outcomes;

static void tell(const char* what) {
    char text[200];
    int length = snprintf(text, sizeof text, "round %zu, %s: %s\n", round_, doing, what);
    if (write(1, text, length) < 0) _exit(3);
}

static void died(int number) {
    tell(number == SIGALRM ? "no answer" : "a crash");
    _exit(2);
}

static void fail(const char* what, int code) {
    char text[100];
    snprintf(text, sizeof text, "%s (%d)", what, code);
    tell(text);
    exit(1);
}

static int noted(const char* name, int code, const std::vector<int>& clear) {
    if (std::find(clear.begin(), clear.end(), code) == clear.end()) fail(name, code);
    return outcomes[name][code]++, code;
}
static int noted(const char* name, CUresult code) { return noted(name, code, CLEAR); }
static int noted(const char* name, cudaError_t code) { return noted(name, code, CLEAR_OF_THE_RUNTIME); }

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Memory in front of a page that cannot be read. What was placed is gone with the next one.
struct Edge {
    char* start = (char*)mmap(nullptr, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Edge() { mprotect(start + ROOM, 4096, PROT_NONE); }
    void* place(const Image& image) {
        if (image.size() > ROOM) fail("too large", (int)image.size());
        return memcpy(start + ROOM - image.size(), image.data(), image.size());
    }
    void hide() { mprotect(start, ROOM, PROT_NONE); }
    void show() { mprotect(start, ROOM, PROT_READ | PROT_WRITE); }
};

static Edge edge, second_edge;

// What can be asked about what was loaded: all is clear, whatever the image holds.
static void use(CUmodule module) {
    unsigned count = 0;
    if (noted("count", cuModuleGetFunctionCount(&count, module))) return;
    CUfunction functions[8];
    count = std::min(count, 8u);
    if (noted("enumerate", cuModuleEnumerateFunctions(functions, count, module))) return;
    for (unsigned index = 0; index < count; index++) {
        int value;
        noted("attribute", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, functions[index]));
        size_t offset, size;
        noted("parameter", cuKernelGetParamInfo((CUkernel)functions[index], 0, &offset, &size));
        noted("load", cuFuncLoad(functions[index]));
    }
    CUdeviceptr address;
    size_t bytes;
    noted("global", cuModuleGetGlobal(&address, &bytes, module, "counter"));
    noted("synchronize", cuCtxSynchronize());
}

static void module_loaded(const char* name, CUresult code, CUmodule module) {
    edge.hide();
    if (!noted(name, code)) {
        use(module);
        OK(cuModuleUnload(module));
    }
    edge.show();
}

static void library_loaded(const char* name, CUresult code, CUlibrary library) {
    edge.hide();
    if (!noted(name, code)) {
        CUmodule module;
        OK(cuLibraryGetModule(&module, library));
        use(module);
        OK(cuLibraryUnload(library));
    }
    edge.show();
}

struct File {
    char name[64];
    explicit File(const Image& image) {
        int file = memfd_create("image", 0);
        if (write(file, image.data(), image.size()) != (ssize_t)image.size()) fail("no file", file);
        snprintf(name, sizeof name, "/proc/self/fd/%d", this->file = file);
    }
    ~File() { close(file); }
    int file;
};

struct Wrapper {
    uint32_t magic = 0x466243B1, version = 1;
    const void* container = nullptr;
    const void* second = nullptr;
};

// A wrapper for the image in memory that is placed already. Version 2 has a list of containers.
static Image wrapper(Random& random, const void* image, const std::vector<Image>& originals) {
    static const void* list[4];
    Wrapper wrapper;
    wrapper.container = image;
    if (random.one_in(2)) {
        second_edge.show();
        const void* other = second_edge.place(random.of(originals));
        wrapper.version = 2;
        list[0] = image;
        list[1] = random.one_in(2) ? other : image;
        list[2] = random.one_in(8) ? (const void*)random.next() : nullptr;
        wrapper.second = list;
        if (random.one_in(2)) wrapper.container = other;
    }
    Image bytes((const char*)&wrapper, sizeof wrapper);
    if (random.one_in(4)) damage_once(random, bytes, originals);
    return bytes;
}

static void link(Random& random, const Image& image, bool file) {
    CUlinkState state;
    char errors[40];
    memset(errors, 0x5A, sizeof errors);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {errors, (void*)(sizeof errors - 8)};
    OK(cuLinkCreate(2, options, values, &state));
    auto kind = (CUjitInputType)random.below(7);
    int code;
    if (file) {
        code = noted("cuLinkAddFile", cuLinkAddFile(state, kind, File(image).name, 0, nullptr, nullptr));
    } else {
        void* data = edge.place(image);
        code = noted("cuLinkAddData", cuLinkAddData(state, kind, data, image.size(), "unit", 0, nullptr, nullptr));
        edge.hide();
    }
    if (code && strnlen(errors, sizeof errors) >= sizeof errors - 8) fail("a log without an end", code);
    if (random.one_in(2))
        noted("second unit", cuLinkAddData(state, CU_JIT_INPUT_PTX, (void*)GOOD, strlen(GOOD) + 1, nullptr, 0, nullptr, nullptr));
    void* made;
    size_t size;
    if (!noted("cuLinkComplete", cuLinkComplete(state, &made, &size))) {
        CUmodule module;
        int loaded = noted("linked", cuModuleLoadData(&module, made));
        OK(cuLinkDestroy(state));
        if (!loaded) {
            use(module);
            OK(cuModuleUnload(module));
        }
    } else {
        OK(cuLinkDestroy(state));
    }
    for (size_t index = sizeof errors - 8; index < sizeof errors; index++)
        if (errors[index] != 0x5A) fail("a log beyond its end", (int)index);
    edge.show();
}

static void runtime_library(void* data) {
    cudaLibrary_t library;
    int code = noted("cudaLibraryLoadData", cudaLibraryLoadData(&library, data, nullptr, nullptr, 0, nullptr, nullptr, 0));
    edge.hide();
    if (!code) {
        unsigned count = 0;
        cudaKernel_t kernel;
        noted("cudaLibraryGetKernelCount", cudaLibraryGetKernelCount(&count, library));
        noted("cudaLibraryGetKernel", cudaLibraryGetKernel(&kernel, library, "fill"));
        noted("cudaLibraryUnload", cudaLibraryUnload(library));
    }
    cudaGetLastError();
    edge.show();
}

static void registered(const Image& wrapper) {
    static char stub;
    Image kept = wrapper;  // it stays until it is unregistered
    kept.resize(24);
    void** handle = __cudaRegisterFatBinary(&kept[0]);
    __cudaRegisterFunction(handle, &stub, (char*)"_Z3addPfS_f", "_Z3addPfS_f", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(handle);
    cudaFuncAttributes attributes;
    noted("registered", cudaFuncGetAttributes(&attributes, &stub));
    cudaFunction_t function;
    noted("registered, by symbol", cudaGetFuncBySymbol(&function, &stub));
    cudaGetLastError();
    __cudaUnregisterFatBinary(handle);
}

// For a look at what a round made: the environment names a file.
static void write_file(const char* name, const Image& image) {
    FILE* file = fopen(name, "wb");
    if (!file || fwrite(image.data(), 1, image.size(), file) != image.size() || fclose(file)) fail("no file", 0);
}

static void try_one(Random& random, const std::vector<Image>& originals) {
    Image image = damaged(random, originals);
    if (image.empty()) image = Image("\0", 1);
    if (const char* place = getenv("HOSTILE_IMAGE")) write_file(place, image);
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    static const char* const WAYS[] = {
        "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData", "cuLibraryLoadFromFile",
        "cuLinkAddData", "cuLinkAddFile", "cudaLibraryLoadData", "__cudaRegisterFatBinary", "a wrapper",
    };
    size_t way = random.below(std::size(WAYS));
    doing = WAYS[way];
    switch (way) {
        case 0: {
            CUresult code = cuModuleLoad(&module, File(image).name);
            module_loaded(doing, code, module);
            break;
        }
        case 1: {
            CUresult code = cuModuleLoadData(&module, edge.place(image));
            module_loaded(doing, code, module);
            break;
        }
        case 2: {
            char errors[64], infos[64];
            CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                                      CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
            void* values[] = {errors, (void*)(sizeof errors - 1), infos, (void*)(sizeof infos - 1), (void*)1};
            errors[sizeof errors - 1] = infos[sizeof infos - 1] = 'x';
            CUresult code = cuModuleLoadDataEx(&module, edge.place(image), 5, options, values);
            if (errors[sizeof errors - 1] != 'x' || infos[sizeof infos - 1] != 'x') fail("a log beyond its end", code);
            module_loaded(doing, code, module);
            break;
        }
        case 3: {
            CUresult code = cuModuleLoadFatBinary(&module, edge.place(image));
            module_loaded(doing, code, module);
            break;
        }
        case 4: {
            CUresult code = cuLibraryLoadData(&library, edge.place(image), nullptr, nullptr, 0, nullptr, nullptr, 0);
            library_loaded(doing, code, library);
            break;
        }
        case 5: {
            CUresult code = cuLibraryLoadFromFile(&library, File(image).name, nullptr, nullptr, 0, nullptr, nullptr, 0);
            library_loaded(doing, code, library);
            break;
        }
        case 6: link(random, image, false); break;
        case 7: link(random, image, true); break;
        case 8: runtime_library(edge.place(image)); break;
        case 9: registered(wrapper(random, edge.place(image), originals)); break;
        default: {
            void* data = edge.place(image);
            Image bytes = wrapper(random, data, originals);
            CUresult code = cuModuleLoadData(&module, bytes.data());
            second_edge.hide();
            module_loaded(doing, code, module);
        }
    }
}

// A good module still loads and runs right.
static void check() {
    static CUdeviceptr data = 0;
    doing = "a good module";
    if (!data) OK(cuMemAlloc(&data, 64 * sizeof(int)));
    CUmodule module;
    CUfunction fill;
    int value = (int)round_, results[64];
    OK(cuModuleLoadData(&module, GOOD));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    void* parameters[] = {&data, &value};
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(results, data, sizeof results));
    for (int index = 0; index < 64; index++) EXPECT(results[index] == value + index);
    OK(cuModuleUnload(module));
}

static std::vector<Image> read_folder(const char* folder) {
    std::vector<Image> images;
    std::vector<std::string> names;
    DIR* directory = opendir(folder);
    while (dirent* entry = directory ? readdir(directory) : nullptr)
        if (entry->d_name[0] != '.') names.push_back(std::string(folder) + "/" + entry->d_name);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        FILE* file = fopen(name.c_str(), "rb");
        Image image(ROOM / 2, '\0');
        image.resize(file ? fread(&image[0], 1, image.size(), file) : 0);
        if (file) fclose(file);
        if (!image.empty()) images.push_back(image);
    }
    return images;
}

int main(int argc, char** argv) {
    if (argc != 5) return 64;
    std::vector<Image> originals = read_folder(argv[1]);
    originals.push_back(Image(PTX_HEADER ".visible .global .align 4 .u32 counter = 7;\n" PTX_FILL PTX_SCALE) + '\0');
    originals.push_back(joined({originals[0], originals.back()}));
    uint64_t seed = strtoull(argv[2], nullptr, 10);
    size_t first = strtoull(argv[3], nullptr, 10), count = strtoull(argv[4], nullptr, 10);
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) signal(number, died);
    begin();
    double slowest = 0;
    for (round_ = first; round_ < first + count; round_++) {
        Random random(seed << 32 | round_);
        alarm(60);
        double start = now();
        try_one(random, originals);
        if (cuCtxSynchronize() != CUDA_SUCCESS) fail("an error comes late", 0);
        double took = now() - start;
        slowest = std::max(slowest, took);
        if (took > MOST_SECONDS) fail("it took too long", (int)took);
        if (round_ % 64 == 63) check();
    }
    check();
    for (const auto& [name, codes] : outcomes) {
        printf("%s:", name.c_str());
        for (const auto& [code, times] : codes) printf(" %d x %d", code, times);
        printf("\n");
    }
    printf("slowest %.3f s\nPASS\n", slowest);
    return 0;
}
