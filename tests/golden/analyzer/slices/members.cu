// Members of structures and objects whose address came from elsewhere, and what changes them.
#include "common.cuh"

struct Plan {
    float *x;
    int *f, limit, *count;
    float factor;
    Plan *next;
};

int counter;
#define GIVEN(name) __attribute__((noinline, noipa)) static void name(Plan *plan, int *others)

GIVEN(members) {
    int flag = 1, k = 0;
    while (flag && k < plan->limit) {
        flag = 0;
        cudaMemcpy(plan->f, &flag, sizeof flag, cudaMemcpyHostToDevice);
        step<<<1, plan->limit & 31>>>(plan->x, plan->f, plan->factor * k, 2);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&flag, plan->f, sizeof flag, cudaMemcpyDeviceToHost));
        ++k;
    }
    LEFT;
}

GIVEN(two_of_them) {
    int flag = 1, k = 0;
    Plan *second = plan->next;
    do {
        step<<<1, 32>>>(plan->x, second->f, second->factor, k);
        cudaMemcpy(&flag, second->f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && ++k < plan->limit);
    LEFT;
}

class Solver {
  public:
    Plan plan;

    __attribute__((noinline, noipa)) int object() {
        double found = 1;
        int k = 0;
        while (found > 0.5 && k < plan.limit) {
            step<<<plan.limit, 32>>>(plan.x, plan.f, plan.factor, found);
            cudaMemcpy(&found, plan.f, sizeof found, cudaMemcpyDeviceToHost);
            k++;
        }
        LEFT;
        return k;
    }
};

GIVEN(member_written) {
    int flag = 1, k = 0;
    do {
        step<<<1, 32>>>(plan->x, plan->f, plan->factor, k);
        cudaMemcpy(&flag, plan->f, sizeof flag, cudaMemcpyDeviceToHost);
        plan->factor = flag;
    } while (flag && ++k < plan->limit);
    LEFT;
}

GIVEN(member_copied_to) {
    int k = 0;
    do {
        step<<<1, 32>>>(plan->x, plan->f, plan->factor, k);
        cudaMemcpy(&plan->limit, plan->f, sizeof plan->limit, cudaMemcpyDeviceToHost);
    } while (plan->limit > 5 && ++k < 20);
    LEFT;
}

GIVEN(through_another) {
    int flag = 1, k = 0;
    do {
        step<<<1, 32>>>(plan->x, plan->f, plan->factor, k);
        cudaMemcpy(&flag, plan->f, sizeof flag, cudaMemcpyDeviceToHost);
        others[k & 1] = flag;
    } while (flag && ++k < plan->limit);
    LEFT;
}

// The structure may be the global variable.
GIVEN(global_counts) {
    int flag = 1, k = 0;
    do {
        step<<<1, 32>>>(plan->x, plan->f, plan->factor, k);
        cudaMemcpy(&flag, plan->f, sizeof flag, cudaMemcpyDeviceToHost);
        ++counter;
    } while (flag && ++k < *plan->count);
    LEFT;
}

GIVEN(walks_on) {
    int flag = 1, k = 0;
    do {
        step<<<1, 32>>>(plan->x, plan->f, plan->factor, k);
        cudaMemcpy(&flag, plan->f, sizeof flag, cudaMemcpyDeviceToHost);
        plan = plan->next;
    } while (flag && ++k < 10);
    LEFT;
}

// The count lies in memory that the loop's own copies change.
__attribute__((noinline, noipa)) static void by_an_address(float *x, int *f, int **limit) {
    int flag = 1, k = 0;
    *limit = &flag;
    do {
        step<<<1, 32>>>(x, f, **limit, k);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (**limit && ++k < 10);
    LEFT;
}

int main() {
    float *x;
    int *f, *limit, others[2] = {};
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64);
    Plan *plan = new Plan{x, f, 20, &counter, 0.5f, nullptr};
    plan->next = new Plan{x, f, 7, &counter, 1.5f, plan};
    Solver solver{*plan};
#define RUN(name) name(plan, others), LEFT;
    counter = -30;
    RUN(members) RUN(two_of_them) RUN(member_written) RUN(member_copied_to) RUN(through_another) RUN(global_counts)
    RUN(walks_on)
    solver.object(), LEFT;
    by_an_address(x, f, &limit), LEFT;
}
