#pragma once

#include "data/hdf5_dataset.h"

namespace longship::data {

// Values that a dataset keeps in other files or takes from other datasets. Where those lack
// something HDF5 gives the fill value, which would look like data.

// Throws DataError when a file of raw values of an external dataset is missing or too short.
void check_external_files(const Hdf5Dataset& dataset);

// Throws DataError when a source of a virtual dataset is missing.
void check_virtual_sources(const Hdf5Dataset& dataset);

// Whether the sources of a virtual dataset give every element of it.
bool virtual_sources_cover(const Hdf5Dataset& dataset);

}  // namespace longship::data
