/// The commit that the program was built from; `unknown` when the build did not say.
const char *build_commit(void);
