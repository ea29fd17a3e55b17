#include "data/pandas_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(UnpickleTest, TakesStringsNumbersAndTuplesInOrder) {
  EXPECT_THAT(unpickle_strings("(lp0\nVtemp\np1\naVwind \\u00e5\np2\na.", "a"),
              ElementsAre("temp", "wind \xc3\xa5"));
  EXPECT_THAT(unpickle_strings("(lp1\nS'power'\np2\naI7\naL8L\na.", "a"),
              ElementsAre("power", "7", "8"));
  EXPECT_THAT(unpickle_strings("(lp1\n(S'p'\np2\nS'a'\ntp4\na(g2\nVb\ntp6\na.", "a"),
              ElementsAre("p_a", "p_b"));
  EXPECT_THAT(unpickle_strings("(l.", "a"), IsEmpty());
}

TEST(UnpickleTest, TextIsLatin1WithEscapes) {
  EXPECT_THAT(unpickle_strings("(lV\xe5\\U0001f6a3\\u6c34\na.", "a"),
              ElementsAre("\xc3\xa5\xf0\x9f\x9a\xa3\xe6\xb0\xb4"));
  // Not an escape: fewer digits, no digits, another letter.
  EXPECT_THAT(unpickle_strings("(lV\\u12\naV\\uzzzz\naV\\n\na.", "a"),
              ElementsAre("\\u12", "\\uzzzz", "\\n"));
}

TEST(UnpickleTest, OtherPicklesAreRefusedByName) {
  for (const char* pickle :
       {"", "(dp0\n.", "\x80\x04]", "Va\n.", "(lVa\n.", "a.", "l.", "(lg5\na.", "((ll.", "p0\n."}) {
    EXPECT_THAT(message_of<DataError>([&] { unpickle_strings(pickle, "f.h5: names"); }),
                HasSubstr("f.h5: names is not a list of names pickled as text"))
        << pickle;
  }
}

class PandasReaderTest : public Hdf5Test {};

TEST_F(PandasReaderTest, FramesAreToldByTheirType) {
  build([](Hdf5Builder& file) {
    file.group("/df");
    file.text_attribute("/df", "pandas_type", "series");
    file.group("/other");
  });
  const Hdf5Handle file = open();
  EXPECT_TRUE(is_pandas_object(file.get(), path_, "/df"));
  EXPECT_FALSE(is_pandas_object(file.get(), path_, "/other"));
  EXPECT_THAT(message_of<DataError>([&] { read_pandas(file.get(), path_, "/df", {}); }),
              AllOf(HasSubstr("data.h5: /df is a pandas object of type 'series'"),
                    HasSubstr("DataFrame.to_hdf")));
}

}  // namespace
}  // namespace longship::data
