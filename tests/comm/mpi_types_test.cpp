#include "comm/mpi_types.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace longship::comm {
namespace {

// Without MPI_Init, so that it runs without a launcher. The sums of half types are tested with the
// communicators, in tests/multirank.
TEST(MpiTypes, HoldTheBitsOfEachDtype) {
  EXPECT_EQ(mpi_type(at::kFloat), MPI_FLOAT);
  EXPECT_EQ(mpi_type(at::kDouble), MPI_DOUBLE);
  EXPECT_EQ(mpi_type(at::kInt), MPI_INT32_T);
  EXPECT_EQ(mpi_type(at::kLong), MPI_INT64_T);
  EXPECT_EQ(mpi_type(at::kByte), MPI_UINT8_T);
  // MPI knows no half types; as numbers of their size they can be copied, and summed by HalfSums.
  EXPECT_EQ(mpi_type(at::kHalf), MPI_UINT16_T);
  EXPECT_EQ(mpi_type(at::kBFloat16), MPI_UINT16_T);
}

TEST(MpiTypes, OtherDtypesAreRefusedByName) {
  try {
    mpi_type(at::kComplexFloat);
    FAIL() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "MPI has no type for ComplexFloat");
  }
  EXPECT_THROW(mpi_type(at::kBool), std::invalid_argument);
}

}  // namespace
}  // namespace longship::comm
