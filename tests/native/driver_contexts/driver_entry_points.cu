// cuGetProcAddress: both of its forms, versions, streams, empty and unknown names; and work done with nothing but what it gives.
#include "../driver.h"

typedef CUresult (*OldForm)(const char*, void**, int, cuuint64_t);
typedef CUresult (*NewForm)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

struct Name {
    const char* name;
    void* linked;
};

// What a program links to is what it finds under the same name and version.
#define NAME(function) {#function, (void*)function}
static const Name FUNCTIONS[] = {
    NAME(cuInit), NAME(cuDriverGetVersion), NAME(cuDeviceGet), NAME(cuDeviceGetCount), NAME(cuDeviceGetName), NAME(cuModuleLoadData),
    NAME(cuModuleUnload), NAME(cuModuleGetFunction), NAME(cuLibraryLoadData), NAME(cuLibraryGetKernel), NAME(cuMemAllocManaged),
    NAME(cuStreamCreate), NAME(cuEventCreate), NAME(cuGetErrorName), NAME(cuGetErrorString), NAME(cuPointerGetAttribute),
};

static void one_form_and_the_other(NewForm get) {
    void *old_way = nullptr, *found = nullptr;
    // A program of CUDA 11.3 has the form without a status.
    OK(get("cuGetProcAddress", &old_way, 11030, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    EXPECT(old_way && old_way != (void*)get);
    OldForm get_old = (OldForm)old_way;
    OK(get_old("cuMemAlloc", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT));
    EXPECT(found == (void*)cuMemAlloc);
    FAILS(get_old("cuNoSuchFunction", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT), CUDA_ERROR_NOT_FOUND);
    if (on_farlane()) FAILS(get_old("cuInit", nullptr, 12000, CU_GET_PROC_ADDRESS_DEFAULT), CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) FAILS(get_old(nullptr, &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT), CUDA_ERROR_INVALID_VALUE);
}

static void names(NewForm get) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    for (const Name& function : FUNCTIONS) {
        OK(get(function.name, &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &status));
        if (found != function.linked) printf("%s is another function\n", function.name);
        EXPECT(found == function.linked && status == CU_GET_PROC_ADDRESS_SUCCESS);
    }
    // A name with its version is no name that is asked for.
    for (const char* unknown : {"cuMemAlloc_v9", "cuMemAlloc_v2", "cudaMalloc", "cuMemAlloc ", "CUMEMALLOC", ""}) {
        found = &found;
        OK(get(unknown, &found, CUDA_VERSION, 0, &status));
        EXPECT(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    // No driver is newer than itself.
    int version = 0;
    OK(cuDriverGetVersion(&version));
    FAILS(get("cuInit", &found, version + 10, 0, &status), CUDA_ERROR_INVALID_VALUE);
    // Since CUDA 12.0, and not before.
    OK(get("cuLibraryGetKernel", &found, 11080, 0, &status));
    EXPECT(!found && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(get("cuLibraryGetKernel", &found, 12000, 0, &status));
    EXPECT(found && status == CU_GET_PROC_ADDRESS_SUCCESS);
    // Each version has the function of its time.
    void *two, *three;
    OK(get("cuCtxCreate", &two, 11030, 0, nullptr));
    OK(get("cuCtxCreate", &three, 11040, 0, nullptr));
    EXPECT(two && three && two != three);
    OK(get("cuEventElapsedTime", &two, 12000, 0, nullptr));
    OK(get("cuEventElapsedTime", &three, 12080, 0, nullptr));
    EXPECT(two && three && two != three);
    FAILS(get("cuInit", &found, CUDA_VERSION, 1ull << 40, &status), CUDA_ERROR_INVALID_VALUE);
}

template <typename F> static F entry(const char* name, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
    void* found = nullptr;
    OK(cuGetProcAddress(name, &found, 12000, flags, nullptr));
    EXPECT(found);
    return (F)found;
}

// The work of a program that links nothing: every function comes from the table, streams from both kinds of default.
static void work() {
    auto allocate = entry<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc");
    auto release = entry<CUresult (*)(CUdeviceptr)>("cuMemFree");
    auto load = entry<CUresult (*)(CUmodule*, const void*)>("cuModuleLoadData");
    auto function = entry<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
    typedef CUresult (*Launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**);
    typedef CUresult (*Read)(void*, CUdeviceptr, size_t);
    typedef CUresult (*Wait)(CUstream);
    const cuuint64_t kinds[] = {CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM};
    CUmodule module;
    CUfunction fill;
    CUdeviceptr data;
    OK(load(&module, PTX_HEADER PTX_FILL));
    OK(function(&fill, module, "fill"));
    OK(allocate(&data, 1024 * sizeof(int)));
    EXPECT(entry<void*>("cuLaunchKernel", kinds[0]) != entry<void*>("cuLaunchKernel", kinds[1]));
    unsigned long long sum = 0;
    for (int round = 0; round < 6; ++round) {
        const cuuint64_t kind = kinds[round % 2];
        Launch launch = entry<Launch>("cuLaunchKernel", kind);
        Read read = entry<Read>("cuMemcpyDtoH", kind);
        Wait wait = entry<Wait>("cuStreamSynchronize", kind);
        int value = 1000 * round, ints[1024];
        void* parameters[] = {&data, &value};
        for (int again = 0; again < 4; ++again) {
            value += again;
            OK(launch(fill, 8, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
        }
        OK(wait(nullptr));
        OK(read(ints, data, sizeof ints));
        for (int i = 0; i < 1024; ++i) {
            EXPECT(ints[i] == 1000 * round + 6 + i);
            sum += ints[i];
        }
    }
    OK(release(data));
    printf("driver_entry_points %llu\n", sum);
}

int main() {
    // The library itself is found before anything is initialized.
    void* self = nullptr;
    OK(cuGetProcAddress("cuGetProcAddress", &self, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    EXPECT(self);
    begin();
    one_form_and_the_other((NewForm)self);
    names((NewForm)self);
    work();
    printf("PASS\n");
    return 0;
}
