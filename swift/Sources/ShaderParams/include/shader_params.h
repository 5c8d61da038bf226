/* The structs and sizes that the host shares with the kernels, from the file that the kernels include. */
#include "../../../../shaders/params.h"
