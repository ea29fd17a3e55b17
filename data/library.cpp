#include "data/library.h"

#include <hdf5.h>

#include <array>
#include <utility>

#include "data/hdf5_file.h"

namespace longship::data {
namespace {

// Numbers registered with The HDF Group.
constexpr std::array<std::pair<int, const char*>, 16> kFilters = {{
    {1, "deflate (gzip)"},
    {2, "shuffle"},
    {3, "fletcher32"},
    {4, "szip"},
    {5, "nbit"},
    {6, "scaleoffset"},
    {305, "lzo"},
    {307, "bzip2"},
    {32000, "lzf"},
    {32001, "blosc"},
    {32004, "lz4"},
    {32008, "bitshuffle"},
    {32013, "zfp"},
    {32015, "zstd"},
    {32017, "sz"},
    {32026, "blosc2"},
}};

}  // namespace

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

std::vector<Filter> hdf5_filters() {
  silence_hdf5();
  std::vector<Filter> filters;
  for (const auto& [id, name] : kFilters) {
    bool usable = H5Zfilter_avail(id) > 0;
    unsigned flags = 0;
    if (usable && H5Zget_filter_info(id, &flags) >= 0) {
      usable = (flags & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0;
    }
    filters.push_back({id, name, usable});
  }
  return filters;
}

std::string filter_name(int id) {
  for (const auto& [known, name] : kFilters) {
    if (known == id) return name;
  }
  return "filter " + std::to_string(id);
}

}  // namespace longship::data
