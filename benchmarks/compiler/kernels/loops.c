/* The loops a user would write instead of the kernels of kernels.inc: plain C, and with OpenMP where compiled with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for")
#define PARALLEL_DYNAMIC _Pragma("omp parallel for schedule(dynamic, 16)")
#define PARALLEL_SUM _Pragma("omp parallel for simd reduction(+ : sum)")
#else
#define PARALLEL
#define PARALLEL_DYNAMIC
#define PARALLEL_SUM
#endif

void saxpy(float *restrict y, const float *restrict x, float a, int n)
{
    PARALLEL
    for (int i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
}

/* Row by row in the order i, k, j: the order that a compiler can vectorize. */
void matmul(float *restrict c, const float *restrict a, const float *restrict b, int n)
{
    PARALLEL
    for (int i = 0; i < n; i++) {
        float *row = c + (size_t)i * n;
        memset(row, 0, sizeof(float) * n);
        for (int k = 0; k < n; k++) {
            float factor = a[(size_t)i * n + k];
            for (int j = 0; j < n; j++)
                row[j] += factor * b[(size_t)k * n + j];
        }
    }
}

void reduction(float *restrict total, const float *restrict values, int n)
{
    float sum = 0.0f;
    PARALLEL_SUM
    for (int i = 0; i < n; i++)
        sum += values[i];
    *total = sum;
}

void scan(int *restrict sums, const int *restrict values, int segments)
{
    PARALLEL
    for (int s = 0; s < segments; s++) {
        int sum = 0;
        for (int i = 0; i < 1024; i++)
            sums[s * 1024 + i] = sum += values[s * 1024 + i];
    }
}

void mandelbrot(int *restrict count, int width, int height, int limit)
{
    PARALLEL_DYNAMIC
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++) {
            float cx = -2.0f + 3.0f * column / width, cy = -1.5f + 3.0f * row / height;
            float x = 0.0f, y = 0.0f;
            int k = 0;
            while (k < limit && x * x + y * y < 4.0f) {
                float next = x * x - y * y + cx;
                y = 2.0f * x * y + cy;
                x = next;
                k++;
            }
            count[row * width + column] = k;
        }
}

void stencil(float *restrict to, const float *restrict from, int width, int height)
{
    PARALLEL
    for (int y = 1; y < height - 1; y++)
        for (int x = 1; x < width - 1; x++) {
            int at = y * width + x;
            to[at] = 0.5f * from[at] + 0.125f * (from[at - 1] + from[at + 1] + from[at - width] + from[at + width]);
        }
}

void nbody(float *restrict force, const float *restrict body, int n)
{
    PARALLEL
    for (int i = 0; i < n; i++) {
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int k = 0; k < n; k++) {
            float dx = body[4 * k] - body[4 * i], dy = body[4 * k + 1] - body[4 * i + 1];
            float dz = body[4 * k + 2] - body[4 * i + 2];
            float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float strength = body[4 * k + 3] * inverse * inverse * inverse;
            fx += strength * dx;
            fy += strength * dy;
            fz += strength * dz;
        }
        force[4 * i] = fx, force[4 * i + 1] = fy, force[4 * i + 2] = fz, force[4 * i + 3] = 0.0f;
    }
}

void gather(float *restrict out, const float *restrict table, const int *restrict index, int n)
{
    PARALLEL
    for (int i = 0; i < n; i++)
        out[i] = table[index[i]];
}

void spmv(float *restrict y, const float *restrict value, const int *restrict column, const int *restrict start,
          const float *restrict x, int rows)
{
    PARALLEL
    for (int row = 0; row < rows; row++) {
        float sum = 0.0f;
        for (int k = start[row]; k < start[row + 1]; k++)
            sum += value[k] * x[column[k]];
        y[row] = sum;
    }
}

/* The same network; the inner loop visits each pair once. */
void bitonic(int *key, int n)
{
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            PARALLEL
            for (int pair = 0; pair < n / 2; pair++) {
                int i = pair / stride * 2 * stride + pair % stride, a = key[i], b = key[i + stride];
                int swap = ((i & size) == 0) == (a > b);
                key[i] = swap ? b : a;
                key[i + stride] = swap ? a : b;
            }
        }
}

void histogram(int *restrict bins, const unsigned char *restrict data, int n)
{
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : bins[:256])
#endif
    for (int i = 0; i < n; i++)
        bins[data[i]]++;
}

void fft(float *restrict real, float *restrict imaginary, const float *restrict cosine, const float *restrict sine, int count)
{
    PARALLEL
    for (int transform = 0; transform < count; transform++) {
        float scratch[2][2][1024], *fr = scratch[0][0], *fi = scratch[0][1], *tr = scratch[1][0], *ti = scratch[1][1];
        memcpy(fr, real + transform * 1024, 4096);
        memcpy(fi, imaginary + transform * 1024, 4096);
        for (int span = 1; span < 1024; span *= 2) {
            for (int group = 0; group < 512 / span; group++)
                for (int within = 0; within < span; within++) {
                    int from = group * span + within, to = 2 * group * span + within, turn = within * (512 / span);
                    float wr = cosine[turn], wi = -sine[turn], br = fr[from + 512], bi = fi[from + 512];
                    float pr = br * wr - bi * wi, pi = br * wi + bi * wr;
                    tr[to] = fr[from] + pr, ti[to] = fi[from] + pi;
                    tr[to + span] = fr[from] - pr, ti[to + span] = fi[from] - pi;
                }
            float *swap = fr;
            fr = tr, tr = swap, swap = fi, fi = ti, ti = swap;
        }
        memcpy(real + transform * 1024, fr, 4096);
        memcpy(imaginary + transform * 1024, fi, 4096);
    }
}

static inline float normal_below(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 0.39894228f * expf(-0.5f * d * d) *
                 (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0.0f ? 1.0f - tail : tail;
}

void black_scholes(float *restrict call, float *restrict put, const float *restrict price, const float *restrict strike,
                   const float *restrict years, int n)
{
    const float rate = 0.02f, volatility = 0.30f;
    PARALLEL
    for (int i = 0; i < n; i++) {
        float s = price[i], x = strike[i], t = years[i], root = sqrtf(t);
        float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
        float d2 = d1 - volatility * root;
        float n1 = normal_below(d1), n2 = normal_below(d2), discounted = x * expf(-rate * t);
        call[i] = s * n1 - discounted * n2;
        put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
    }
}
