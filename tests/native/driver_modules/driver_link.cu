// Two translation units are linked; the result is copied elsewhere and loaded; what cannot be linked is refused with a log.
#include "../driver.h"

static const char* CALLER = PTX_HEADER
    ".extern .global .align 4 .u32 offset;\n.extern .func (.param .b32 result) twice(.param .b32 value);\n"
    ".visible .entry apply(.param .u64 data)\n{\n.reg .b32 %r<5>;\n.reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n{\n.param .b32 in;\n.param .b32 out;\n"
    "st.param.b32 [in], %r1;\ncall.uni (out), twice, (in);\nld.param.b32 %r2, [out];\n}\nld.global.u32 %r3, [offset];\n"
    "add.s32 %r4, %r2, %r3;\nmul.wide.s32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\nst.global.u32 [%rd4], %r4;\nret;\n}\n";
static const char* CALLEE = PTX_HEADER
    ".visible .global .align 4 .u32 offset = 1000;\n.visible .func (.param .b32 result) twice(.param .b32 value)\n{\n.reg .b32 %r<3>;\n"
    "ld.param.b32 %r1, [value];\nshl.b32 %r2, %r1, 1;\nst.param.b32 [result], %r2;\nret;\n}\n";

static CUresult add(CUlinkState link, const char* text) {
    return cuLinkAddData(link, CU_JIT_INPUT_PTX, (void*)text, strlen(text) + 1, "unit", 0, nullptr, nullptr);
}

int main() {
    begin();
    CUlinkState link;
    void* image;
    size_t size;
    char errors[512];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {errors, (void*)sizeof errors};
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, CALLER));
    OK(add(link, CALLEE));
    OK(cuLinkComplete(link, &image, &size));
    void* copy = malloc(size);
    memcpy(copy, image, size);
    OK(cuLinkDestroy(link));
    FAILS(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);

    CUmodule module;
    CUfunction apply;
    OK(cuModuleLoadData(&module, copy));
    OK(cuModuleGetFunction(&apply, module, "apply"));
    CUdeviceptr data;
    int ints[32];
    OK(cuMemAlloc(&data, sizeof ints));
    void* parameters[] = {&data};
    OK(cuLaunchKernel(apply, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    for (int i = 0; i < 32; i++) EXPECT(ints[i] == 1000 + 2 * i);
    CUlibrary library;
    CUkernel kernel;
    OK(cuLibraryLoadData(&library, copy, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&kernel, library, "apply"));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 16, 1, 1, 0, nullptr, parameters, nullptr));
    free(copy);

    // What the linker says of what it made.
    char infos[1024];
    CUjit_option verbose[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void* places[] = {infos, (void*)sizeof infos, (void*)1};
    OK(cuLinkCreate(3, verbose, places, &link));
    OK(add(link, CALLER));
    OK(add(link, CALLEE));
    EXPECT((size_t)places[1] == 0);
    OK(cuLinkComplete(link, &image, &size));
    EXPECT((size_t)places[1] == strlen(infos) && strstr(infos, "apply") && strstr(infos, "8 bytes of parameters"));
    OK(cuLinkDestroy(link));

    // One unit alone is its own result.
    values[1] = (void*)sizeof errors;
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, CALLEE));
    OK(cuLinkComplete(link, &image, &size));
    OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(link));
    // A variable that no unit defines, a symbol that two define, a text that is none, kinds that are not supported.
    values[1] = (void*)sizeof errors;
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, CALLER));
    EXPECT(cuLinkComplete(link, &image, &size) != CUDA_SUCCESS && strstr(errors, "offset") && strstr(errors, "twice"));
    OK(cuLinkDestroy(link));
    // A function that no unit defines; a later load of the same finds it, too.
    values[1] = (void*)sizeof errors;
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, CALLER));
    OK(add(link, PTX_HEADER ".visible .global .align 4 .u32 offset = 1000;\n"));
    FAILS(cuLinkComplete(link, &image, &size), CUDA_ERROR_INVALID_IMAGE);
    EXPECT(strstr(errors, "twice") && strstr(errors, "apply") && (size_t)values[1] == strlen(errors));
    FAILS(cuModuleLoadData(&module, PTX_HEADER ".extern .func missing();\n.visible .entry lonely()\n{\ncall missing;\nret;\n}\n"),
          CUDA_ERROR_INVALID_IMAGE);
    // The rest may still be added.
    OK(add(link, CALLEE));
    EXPECT(!errors[0]);
    OK(cuLinkDestroy(link));
    values[1] = (void*)sizeof errors;
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, CALLEE));
    OK(add(link, CALLEE));
    EXPECT(cuLinkComplete(link, &image, &size) != CUDA_SUCCESS && errors[0]);
    OK(cuLinkDestroy(link));
    values[1] = (void*)sizeof errors;
    OK(cuLinkCreate(2, options, values, &link));
    FAILS(add(link, PTX_HEADER ".visible .entry bad()\n{\nmov.u32 %r1, 1;\nret;\n}\n"), CUDA_ERROR_INVALID_PTX);
    EXPECT(strstr(errors, "line 6"));
    FAILS(cuLinkAddData(link, CU_JIT_INPUT_NVVM, errors, 4, nullptr, 0, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    FAILS(cuLinkAddData(link, CU_JIT_INPUT_PTX, nullptr, 4, nullptr, 0, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLinkComplete(link, &image, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuLinkDestroy(link));
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
