#pragma once

#include <string>

#include "data/series_store.h"

namespace longship::data {

// Writes Longship's series file (data/series_file.h tells its layout) under a temporary name beside
// `path`, syncs it to disk and renames it. With overwrite false an existing file is refused. Throws
// DataError; nothing is left behind then.
void write_series_file(const std::string& path, const SeriesTable& table, bool overwrite);

}  // namespace longship::data
