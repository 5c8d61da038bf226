/* Compiles the shared header as C, so that its assertions on every struct's size are checked by this compiler too. */
#include "shader_params.h"
