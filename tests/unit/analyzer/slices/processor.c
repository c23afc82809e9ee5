/* What the processor makes of two operands: reads records of "operation, width, a, b" as 8-byte words, writes 8-byte results. */
#include <emmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TWO(number, name)                                                                           \
    case number:                                                                                    \
        if (width == 8) __asm__(name "sd %1, %0" : "+x"(x) : "x"(y));                               \
        else __asm__(name "ss %1, %0" : "+x"(x) : "x"(y));                                          \
        break;
#define FLAG(number, name)                                                                          \
    case number:                                                                                    \
        if (width == 8) __asm__("ucomisd %2, %1\n\t" name " %0" : "=q"(flag) : "x"(x), "x"(y));     \
        else __asm__("ucomiss %2, %1\n\t" name " %0" : "=q"(flag) : "x"(x), "x"(y));                \
        return flag;
#define FROM(number, name, suffix)                                                                  \
    case number:                                                                                    \
        if (width == 8) __asm__(name "sd" suffix " %1, %0" : "+x"(x) : "r"(a));                     \
        else __asm__(name "ss" suffix " %1, %0" : "+x"(x) : "r"(a));                                \
        break;
#define TO(number, before, after, type)                                                             \
    case number: {                                                                                  \
        type whole;                                                                                 \
        if (width == 8) __asm__(before "sd2si %1, %0" : "=r"(whole) : "x"(x));                      \
        else __asm__(before "ss2si %1, %0" : "=r"(whole) : "x"(x));                                 \
        return (uint64_t)whole;                                                                     \
    }

static uint64_t computed(uint64_t operation, uint64_t width, uint64_t a, uint64_t b) {
    __m128i first = _mm_cvtsi64_si128((long long)a), second = _mm_cvtsi64_si128((long long)b);
    __m128d x, y;
    uint8_t flag;
    memcpy(&x, &first, 16), memcpy(&y, &second, 16);
    switch (operation) {
        TWO(0x30, "add") TWO(0x31, "sub") TWO(0x32, "mul") TWO(0x33, "div") TWO(0x34, "min") TWO(0x35, "max")
        case 0x36:
            if (width == 8) __asm__("sqrtsd %1, %0" : "=x"(x) : "x"(x));
            else __asm__("sqrtss %1, %0" : "=x"(x) : "x"(x));
            break;
        FLAG(0x3b, "setp")
        case 0x38: case 0x39: case 0x3a: { /* equal; less: above with the operands turned */
            uint8_t parity, is;
            if (width == 8) __asm__("ucomisd %3, %2\n\tsetp %0\n\tsete %1" : "=q"(parity), "=q"(is) : "x"(x), "x"(y));
            else __asm__("ucomiss %3, %2\n\tsetp %0\n\tsete %1" : "=q"(parity), "=q"(is) : "x"(x), "x"(y));
            if (operation == 0x38) return is & !parity;
            if (width == 8) __asm__("ucomisd %3, %2\n\tseta %0\n\tsetae %1" : "=q"(flag), "=q"(is) : "x"(y), "x"(x));
            else __asm__("ucomiss %3, %2\n\tseta %0\n\tsetae %1" : "=q"(flag), "=q"(is) : "x"(y), "x"(x));
            return operation == 0x39 ? flag : is;
        }
        FROM(0x41, "cvtsi2", "q")
        case 0x40:
            if (width == 8) __asm__("cvtsi2sdl %1, %0" : "+x"(x) : "r"((uint32_t)a));
            else __asm__("cvtsi2ssl %1, %0" : "+x"(x) : "r"((uint32_t)a));
            break;
        TO(0x42, "cvtt", , uint32_t) TO(0x43, "cvtt", , uint64_t) TO(0x44, "cvt", , uint32_t) TO(0x45, "cvt", , uint64_t)
#define ROUND(code, mode) \
        case code: \
            if (width == 8) __asm__("roundsd %2, %1, %0" : "=x"(x) : "x"(x), "i"(mode)); \
            else __asm__("roundss %2, %1, %0" : "=x"(x) : "x"(x), "i"(mode)); \
            break;
        ROUND(0x48, 0) ROUND(0x49, 1) ROUND(0x4A, 2) ROUND(0x4B, 3)
        case 0x46: __asm__("cvtss2sd %1, %0" : "=x"(x) : "x"(x)); break;
        case 0x47: __asm__("cvtsd2ss %1, %0" : "=x"(x) : "x"(x)); break;
        default: return 0x5a5a5a5a;
    }
    memcpy(&first, &x, 16);
    return (uint64_t)_mm_cvtsi128_si64(first);
}

int main(void) {
    uint64_t in[4], out;
    while (fread(in, sizeof in, 1, stdin) == 1) {
        out = computed(in[0], in[1], in[2], in[3]);
        fwrite(&out, sizeof out, 1, stdout);
    }
    return 0;
}
