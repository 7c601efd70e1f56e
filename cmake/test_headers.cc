// Gives the precompiled test headers a target to belong to; an executable, so that they are compiled as tests are.
int main() { return 0; }
