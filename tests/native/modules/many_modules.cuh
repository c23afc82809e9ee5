// What the two translation units of `many_modules` share.
#pragma once

int second_unit_sum(const int *device_values, int n);
void second_unit_set(int value);
int second_unit_get();
