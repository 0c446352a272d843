#pragma once

#include <cstdio>  // jpeglib.h needs it
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

// JPEG files of kinds that kolo itself doesn't write.
namespace kolo::testing {

struct JpegKind {
  J_COLOR_SPACE pixels = JCS_RGB;    // of what is given
  J_COLOR_SPACE inside = JCS_YCbCr;  // of what is stored
  bool progressive = false;
  bool adobe_marker = true;  // for JCS_CMYK and JCS_YCCK
};

inline std::string jpeg_file(unsigned height, unsigned width, std::vector<std::uint8_t> pixels,
                             const JpegKind& kind, int quality = 100) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = height;
  jpeg.image_width = width;
  jpeg.input_components = static_cast<int>(pixels.size() / height / width);
  jpeg.in_color_space = kind.pixels;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, kind.inside);
  if (!kind.adobe_marker) jpeg.write_Adobe_marker = FALSE;
  jpeg_set_quality(&jpeg, quality, TRUE);
  for (int i = 0; i < jpeg.num_components; ++i) {
    jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  }
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < height) {
    auto* row = pixels.data() + pixels.size() / height * jpeg.next_scanline;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return file;
}

}  // namespace kolo::testing
