#pragma once

#include <string>
#include <vector>

namespace longship::data {

// The version of the HDF5 library that is loaded, such as "1.10.8".
std::string hdf5_version();

struct Filter {
  int id = 0;
  std::string name;
  bool usable = false;  // decodes here
};

// The compression and checksum filters that HDF5 files use in practice, built in and registered by
// plugin, each with whether it decodes here. A plugin is found through HDF5_PLUGIN_PATH.
std::vector<Filter> hdf5_filters();

// The usual name of a filter by its registered number, such as "blosc" for 32001; "filter NUMBER"
// for one that is not known.
std::string filter_name(int id);

}  // namespace longship::data
