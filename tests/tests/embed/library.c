static int number = 5;
static int *pointer = &number;
static __thread int own = 3;

int exported(int more) { return *pointer + own + more; }
