#pragma once

#include <string>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "hdf5_builder.h"

namespace longship::data {

// A test on datasets of one small file.
class Hdf5DatasetFixture : public Hdf5Test {
 protected:
  static Hdf5Handle layout() {
    return own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "property list");
  }
  Hdf5DatasetInfo info(const std::string& path) const {
    const Hdf5Handle file = open();
    return Hdf5Dataset(file.get(), path_, path).info();
  }
  std::string unreadable(const std::string& path) const {
    return message_of<DataError>([&] {
      const Hdf5Handle file = open();
      Hdf5Dataset(file.get(), path_, path).check_readable();
    });
  }
};

}  // namespace longship::data
