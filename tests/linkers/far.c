// Functions out of reach of a branch. Calls to and from them go through thunks.
#include <stdio.h>
#include <stdlib.h>

#define FAR __attribute__((noinline, section(".far")))

FAR int leaf(int x) { return x * 3 + 1; }

FAR int calls(int x) {
    char text[64];
    snprintf(text, sizeof text, "%d", leaf(x));
    return atoi(text);
}

int main(void) {
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += calls(i) + leaf(i);
    printf("%d\n", sum);
    return sum == 290 ? 0 : 1;
}
