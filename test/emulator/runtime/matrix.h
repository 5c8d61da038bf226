// 8x8 simdgroup matrices.
#pragma once
#include "scheduler.h"

namespace emu {

/// How a product's eight terms are summed, which Metal leaves open: GATED_DELTA_EMULATOR_MATRIX.
enum class MatrixSum { fused, pairwise, exact };
extern MatrixSum matrix_sum;

void complete_matrix(Simdgroup &simdgroup, Exchange &exchange);

}  // namespace emu
