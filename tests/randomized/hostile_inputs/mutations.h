// Damaged images, in a fixed sequence: what a seed and a round make of the originals is always the same.
#pragma once
#include <stdint.h>
#include <string.h>

#include <string>
#include <vector>

using Image = std::string;

// xorshift64*
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15 | 1) { next(); }
    uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545F4914F6CDD1D;
    }
    size_t below(size_t bound) { return bound ? next() % bound : 0; }
    bool one_in(size_t count) { return below(count) == 0; }
    template <typename T>
    const T& of(const std::vector<T>& all) {
        return all[below(all.size())];
    }
};

static const std::vector<uint64_t> EXTREMES = {
    0, 1, 7, 8, 15, 16, 0x3F, 0x40, 0x50, 0x7F, 0xFF, 0x1000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ull << 32, 1ull << 40, 1ull << 63, ~0ull,
};
static const std::vector<Image> WORDS = {
    "{", "}", "(", ")", "[", "]", ";", ",", "\"", "/*", "*/", "//", "@", "%r1", "%p1", "0x", "-", "9999999999999999999999", "0xffffffffffffffff", "\n",
    ".entry", ".func", ".param", ".global", ".shared", ".const", ".local", ".align", ".b8", ".v4", ".ptr", ".maxntid", ".extern", ".weak", ".reg",
    ".target sm_", ".version ", ".pragma", ".section", ".loc", ".file", ".branchtargets", ".callprototype", "<100000000>", "[4294967296]", "= {", "generic(", "bra", "call", "ret",
};

template <typename T>
static void put(Image& image, size_t at, T value) {
    if (at + sizeof value <= image.size()) memcpy(&image[at], &value, sizeof value);
}

// One damage. The first bytes of a container, of an entry and of a file have most of the meaning.
static void damage_once(Random& random, Image& image, const std::vector<Image>& originals) {
    if (image.empty()) return;
    size_t most = random.one_in(2) && image.size() > 160 ? 160 : image.size();
    size_t at = random.below(most);
    switch (random.below(11)) {
        case 0: image[at] ^= 1 << random.below(8); break;
        case 1: image[at] = (char)random.next(); break;
        case 2: put(image, at & ~7ull, random.of(EXTREMES)); break;
        case 3: put(image, at & ~3ull, (uint32_t)random.of(EXTREMES)); break;
        case 4: put(image, at & ~1ull, (uint16_t)random.of(EXTREMES)); break;
        case 5: image.resize(random.below(image.size() + 1)); break;
        case 6: image.erase(at, random.below(64)); break;
        case 7: {
            Image copy = image.substr(random.below(image.size()), random.below(512));
            image.insert(at, copy);
            break;
        }
        case 8: image.insert(at, random.of(WORDS)); break;
        case 9: {
            const Image& other = random.of(originals);
            size_t from = random.below(other.size());
            image.replace(at, random.below(256), other.substr(from, random.below(256)));
            break;
        }
        default: {
            // A size that lies a little.
            uint32_t size = 0;
            if ((at & ~3ull) + 4 <= image.size()) memcpy(&size, &image[at & ~3ull], 4);
            put(image, at & ~3ull, size + (uint32_t)random.below(65) - 32);
        }
    }
}

// A container around what may be a container itself.
static Image contained(const Image& payload, uint16_t kind) {
    size_t padded = (payload.size() + 7) / 8 * 8;
    Image image(16 + 64 + padded, '\0');
    put(image, 0, 0xBA55ED50u);
    put(image, 4, (uint16_t)1);
    put(image, 6, (uint16_t)16);
    put(image, 8, (uint64_t)(64 + padded));
    put(image, 16, kind);
    put(image, 20, 64u);
    put(image, 24, (uint64_t)padded);
    put(image, 16 + 28, 75u);
    memcpy(&image[80], payload.data(), payload.size());
    return image;
}

// What Farlane's own linker makes of several images, which a program may give back damaged.
static Image joined(const std::vector<Image>& parts) {
    Image image("FARLANEJ\1\0\0\0", 12);
    uint32_t count = (uint32_t)parts.size();
    image.append((const char*)&count, 4);
    for (const Image& part : parts) {
        uint64_t size = part.size();
        image.append((const char*)&size, 8).append(part).append(-part.size() % 8, '\0');
    }
    return image;
}

static Image damaged(Random& random, const std::vector<Image>& originals) {
    Image image = random.of(originals);
    if (random.one_in(24)) {
        image.clear();
        for (size_t left = random.below(300); left--;) image += (char)random.next();
        return image;
    }
    if (random.one_in(12)) image = contained(image, (uint16_t)random.below(4));
    if (random.one_in(12)) image = joined({image, random.of(originals)});
    if (random.one_in(20)) return image;
    for (size_t times = 1 + random.below(4); times--;) damage_once(random, image, originals);
    return image;
}
