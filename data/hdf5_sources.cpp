#include "data/hdf5_sources.h"

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/error.h"
#include "data/hdf5_file.h"

namespace longship::data {
namespace {

// Where HDF5 finds an external file of raw values.
std::filesystem::path external_path(const std::string& file, const std::filesystem::path& folder) {
  const char* variable = std::getenv("HDF5_EXTFILE_PREFIX");
  std::string prefix = variable == nullptr ? "" : variable;
  constexpr std::string_view kOrigin = "${ORIGIN}";
  if (prefix.starts_with(kOrigin)) {
    prefix.replace(0, kOrigin.size(), std::filesystem::absolute(folder / ".").string());
  }
  return prefix.empty() ? std::filesystem::path(file) : std::filesystem::path(prefix) / file;
}

// Takes the elements of a virtual dataset that a source is mapped to out of a selection. False when
// the source may grow and `grows` does not allow that.
bool take_away(hid_t mapped, const std::vector<hsize_t>& extent, bool grows, hid_t selection,
               const std::string& what) {
  const size_t rank = extent.size();
  if (H5Sis_regular_hyperslab(mapped) > 0) {
    std::vector<hsize_t> start(rank);
    std::vector<hsize_t> stride(rank);
    std::vector<hsize_t> count(rank);
    std::vector<hsize_t> block(rank);
    check_hdf5(
        H5Sget_regular_hyperslab(mapped, start.data(), stride.data(), count.data(), block.data()),
        what);
    for (size_t i = 0; i < rank; ++i) {
      if (count[i] != H5S_UNLIMITED && block[i] != H5S_UNLIMITED) continue;
      if (!grows || start[i] >= extent[i]) return false;
      const hsize_t rest = extent[i] - start[i];
      if (block[i] == H5S_UNLIMITED) {
        block[i] = rest;
      } else {
        count[i] = (rest + stride[i] - 1) / stride[i];
      }
    }
    check_hdf5(H5Sselect_hyperslab(selection, H5S_SELECT_NOTB, start.data(), stride.data(),
                                   count.data(), block.data()),
               what);
    return true;
  }
  const hssize_t blocks = H5Sget_select_hyper_nblocks(mapped);
  if (blocks <= 0) return true;
  std::vector<hsize_t> corners(2 * rank * static_cast<size_t>(blocks));
  check_hdf5(H5Sget_select_hyper_blocklist(mapped, 0, static_cast<hsize_t>(blocks), corners.data()),
             what);
  for (size_t at = 0; at < corners.size(); at += 2 * rank) {
    std::vector<hsize_t> size(rank);
    for (size_t i = 0; i < rank; ++i) size[i] = corners[at + rank + i] - corners[at + i] + 1;
    check_hdf5(H5Sselect_hyperslab(selection, H5S_SELECT_NOTB, corners.data() + at, nullptr,
                                   size.data(), nullptr),
               what);
  }
  return true;
}

}  // namespace

void check_external_files(const Hdf5Dataset& dataset) {
  const Hdf5Handle plist = dataset.creation();
  const std::filesystem::path folder = std::filesystem::path(dataset.file_path()).parent_path();
  uintmax_t left = static_cast<uintmax_t>(dataset.info().elements()) * dataset.info().type_size;
  const int files = H5Pget_external_count(plist.get());
  for (int i = 0; i < files && left > 0; ++i) {
    char file[1024] = {};
    off_t offset = 0;
    hsize_t size = 0;
    check_hdf5(H5Pget_external(plist.get(), static_cast<unsigned>(i), sizeof file - 1, file,
                               &offset, &size),
               dataset.name() + ": its external file cannot be told");
    const std::filesystem::path found = external_path(file, folder);
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(found, error);
    if (error) {
      const std::string what =
          dataset.name() + " keeps its values in another file, " + file + ", which is not ";
      if (std::getenv("HDF5_EXTFILE_PREFIX") != nullptr) {
        throw DataError(what + "at " + found.string() +
                        ", where HDF5_EXTFILE_PREFIX has it looked for; copy it there");
      }
      // HDF5 looks for it where the program runs, not beside the file, unless the variable says so.
      const bool beside = std::filesystem::exists(folder / file, error);
      throw DataError(what +
                      (beside ? "in the folder where the program runs"
                              : "there; copy it beside " + dataset.file_path()) +
                      "; set HDF5_EXTFILE_PREFIX='${ORIGIN}' to have it read from beside");
    }
    // HDF5 gives zeros for what a file lacks, which would look like data.
    const uintmax_t part = std::min<uintmax_t>(left, size);  // the last one may have no end
    const uintmax_t needed = static_cast<uintmax_t>(offset) + part;
    if (bytes < needed) {
      throw DataError(dataset.name() + " keeps its values in another file, " + found.string() +
                      ", which is truncated: it should have " + std::to_string(needed) +
                      " bytes and has " + std::to_string(bytes) + "; copy or write it again");
    }
    left -= part;
  }
}

void check_virtual_sources(const Hdf5Dataset& dataset) {
  const Hdf5Handle plist = dataset.creation();
  const std::filesystem::path folder = std::filesystem::path(dataset.file_path()).parent_path();
  size_t count = 0;
  check_hdf5(H5Pget_virtual_count(plist.get(), &count),
             dataset.name() + ": its sources cannot be told");
  for (size_t i = 0; i < count; ++i) {
    char file[4096] = {};
    char source[4096] = {};
    if (H5Pget_virtual_filename(plist.get(), i, file, sizeof file) < 0 ||
        H5Pget_virtual_dsetname(plist.get(), i, source, sizeof source) < 0) {
      throw DataError(dataset.name() + ": source " + std::to_string(i) + " cannot be told");
    }
    const std::filesystem::path beside =
        std::string(file) == "." ? std::filesystem::path(dataset.file_path()) : folder / file;
    const bool there = std::filesystem::exists(beside) || std::filesystem::exists(file);
    const std::string source_file = std::filesystem::exists(beside) ? beside.string() : file;
    // HDF5 gives fill values for a source that is not there, which would look like data.
    if (!there || !hdf5_exists(open_hdf5_file(source_file).get(), source)) {
      throw DataError(dataset.name() + " is a virtual dataset whose source " + source + " in " +
                      file + " is not there; copy it beside " + dataset.file_path());
    }
  }
}

bool virtual_sources_cover(const Hdf5Dataset& dataset) {
  const std::string what = dataset.name() + ": its sources cannot be told";
  const Hdf5Handle plist = dataset.creation();
  const Hdf5Handle uncovered = own(H5Dget_space(dataset.id()), H5Sclose, what);
  const std::vector<hsize_t> extent(dataset.info().shape.begin(), dataset.info().shape.end());
  const std::vector<hsize_t> origin(extent.size(), 0);
  if (extent.empty()) return true;
  check_hdf5(H5Sselect_hyperslab(uncovered.get(), H5S_SELECT_SET, origin.data(), nullptr,
                                 extent.data(), nullptr),
             what);
  size_t count = 0;
  check_hdf5(H5Pget_virtual_count(plist.get(), &count), what);
  for (size_t i = 0; i < count && H5Sget_select_npoints(uncovered.get()) > 0; ++i) {
    const Hdf5Handle mapped = own(H5Pget_virtual_vspace(plist.get(), i), H5Sclose, what);
    if (H5Sget_select_type(mapped.get()) == H5S_SEL_ALL) return true;
    // Of several sources that grow, one may be behind the others.
    if (!take_away(mapped.get(), extent, count == 1, uncovered.get(), what)) return false;
  }
  return H5Sget_select_npoints(uncovered.get()) == 0;
}

}  // namespace longship::data
