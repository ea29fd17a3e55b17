#pragma once

#include "data/csv_import.h"
#include "data/csv_rows.h"
#include "data/series_store.h"

namespace longship::data {

// Makes series of rows that were read in any order: sorts by time, drops exact copies, finds the
// step and adds absent rows on a regular grid. Writes what it did to `report` and to the table's
// notes. Throws DataError for one time with different values, and with `strict` for whatever it
// would repair.
SeriesTable assemble_series(CsvRows rows, bool strict, CsvImportReport& report);

}  // namespace longship::data
