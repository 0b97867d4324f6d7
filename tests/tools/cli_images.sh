# Images of all kinds as inputs, compared with Pillow (make_images.py): orientation, size and scale.
. "$(dirname "$0")/expect.sh"

images=$data/images
identity() {
    assemble "$1.bin" <<X
xcvm 1
input x $2
output y $2
\$1 = In(name="x")
\$2 = Identity(\$1)
Out(\$2, name="y")
X
}
identity rgb 'u8[NxHxWx3]'
identity gray 'u8[HxW]'
identity rgba 'u8[4xHxW]'
identity down 'u8[1x3x4x5]'
identity up 'u8[17x20x4]'
identity scaled 'f32[Nx3x6x6]'

# agrees FILE KEY [ATOL]: the image becomes the expected tensor for each layout.
agrees() {
    local limit=${3:-0} name
    for name in rgb gray rgba down up scaled; do
        [ "$name" = scaled ] && limit=$(awk "BEGIN { print $limit / 255 + 1e-7 }")
        run run $name.bin -i "x=@$images/$1" --expect "y=@$images/expected.npz:$2.$name" --rtol 0 --atol "$limit"
        code 0
    done
}
for number in 1 2 3 4 5 6 7 8; do
    for ending in png webp tif; do
        agrees "turned_${ending}_$number.$ending" turned
    done
    agrees "turned_jpg_$number.jpg" "turned_jpg_$number" 3 # libraries round differently
done
agrees big_endian.jpg big_endian 3
for file in gray.png bits.png gray_alpha.png alpha.png alpha_webp.webp palette.png palette_bmp.bmp plain.bmp \
    gray_lzw.tif plain.ppm gray_map.pgm wide.png; do
    agrees "$file" "${file%.*}"
done
for file in gray_jpg.jpg progressive.jpg cmyk.jpg ycck.jpg; do
    agrees "$file" "${file%.*}" 4
done

# ---- Sizes ----

identity open 'u8[CxHxW]'
identity half 'u8[3x18xW]'
identity flat 'f32[Nx117]'
run run open.bin -i "x=@$images/gray.png"
out_has 'y=1x9x13xu8'
run run open.bin -i "x=@$images/alpha.png"
out_has 'y=4x9x13xu8'
run run open.bin -i "x=@$images/turned_jpg_6.jpg"
out_has 'y=3x9x13xu8'
run run half.bin -i "x=@$images/plain.bmp"
out_has 'y=3x18x26xu8'
err_has "plain.bmp: the image of 9 x 13 is resized to 18 x 26"
run run rgb.bin --dim H=4 --dim W=5 -i "x=@$images/plain.bmp"
out_has 'y=1x4x5x3xu8'
run run flat.bin -i "x=@$images/gray.png"
out_has 'y=1x117xf32'
# Expected images are not resized.
run run down.bin -i zeros --expect "y=@$images/plain.bmp"
code 3
err_has 'the image of width 13 and height 9 does not fit u8[1x3x4x5]'
# The other commands take images, too.
for command in bench profile; do
    run $command scaled.bin -i "x=@$images/cmyk.jpg"
    code 0
done

# ---- Factors of bytes ----

identity bytes 'u8[Nx3x6x6]'
run run bytes.bin -i "x=@$images/plain.bmp" -o y=@bytes.npz:images
code 0
run run scaled.bin -i "x=@$images/plain.bmp" -o y=@image.npy
code 0
run run scaled.bin -i "x=@$images/plain.bmp*1/255" -o y=@same.npy
code 0
check cmp image.npy same.npy
run run scaled.bin -i 'x=@bytes.npz:images*1/255' -o y=@array.npy
code 0
check test ! -s .err
check cmp image.npy array.npy
run run scaled.bin -i 'x=@bytes.npz:images' -o y=@whole.npy
code 0
err_has 'note: bytes.npz holds numbers of u8; input "x" takes them as they are'
err_has '*1/255 behind the name brings 0 to 255 to 0 to 1'
run run scaled.bin -i 'x=@bytes.npz:images*1' -o y=@meant.npy
code 0
check test ! -s .err
check cmp whole.npy meant.npy
run run scaled.bin -i "x=@$images/plain.bmp*1" -o y=@meant.npy
check cmp whole.npy meant.npy
run run bytes.bin -i 'x=@bytes.npz:images*2'
code 2
err_has 'numbers of u8 cannot be multiplied by a factor. Omit it'
run run scaled.bin -i 'x=@absent.npy*2'
code 6
err_has 'absent.npy: '
run run scaled.bin -i 'x=@*2'
code 2
err_has 'the name of a file is missing after @'
for factor in 0 nan inf 1/0 1/inf 1e200/1e-200 1e-200/1e200 x; do
    run run scaled.bin -i "x=@bytes.npz:images*$factor"
    code 2
    err_has "*$factor is no factor"
done
identity narrow 'f16[N]'
run run narrow.bin -i 'x=@wide.npy' -o y=@absent.npy
code 6
identity wide 'i32[N]'
run run wide.bin -i 'x=2xi32=100000 255' -o y=@wide.npy
code 0
run run narrow.bin -i 'x=@wide.npy*1/255'
code 0
out_line 'y=2xf16=392.2 1'
cp bytes.npz 'a*2'
run run scaled.bin -i 'x=@a*2'
code 0
run run scaled.bin -i zeros -o 'y=@t.npy*2'
code 2
err_has 'is not a target of an output'

# ---- What cannot be ----

cp "$images/plain.bmp" not.png
run run rgb.bin -i x=@not.png
code 0
head -c 300 "$images/cmyk.jpg" >cut.jpg
run run rgb.bin -i x=@cut.jpg
code 2
err_has 'cut.jpg: '
printf 'GIF89a\1\0\1\0\0\0\0' >a.gif
cp a.gif a.jpg
run run rgb.bin -i x=@a.jpg
code 2
err_has 'a.jpg: this is a GIF image; convert it to PNG or JPEG'
identity signed 'i8[3x4x5]'
run run signed.bin -i "x=@$images/plain.bmp"
code 2
err_has 'an image cannot become i8'
identity several 'f32[8x3x6x6]'
run run several.bin -i "x=@$images/plain.bmp"
code 2
err_has 'an image cannot become a tensor of [8x3x6x6]'
run run scaled.bin -i "x=@$images/plain.bmp" --max-memory 400
code 5

# ---- Folders of images ----

root=$data/../../..
learn() { run train "$root/examples/digits/untrained.onnx" -i image=images -l label=labels --loss softmax_cross_entropy -b 4 -o t.onnx "$@"; }
mkdir -p photos/a photos/b
cp "$images"/turned_*_[1-4].* photos/a
cp "$images/cmyk.jpg" "$images/wide.png" "$images/palette_bmp.bmp" photos/b
cp "$images/alpha.png" photos/b/without_ending
learn -d photos
code 0
check test ! -s "$work/.err"
printf 'abcd' >photos/a/Thumbs.db
: >photos/a/.hidden
cp a.gif photos/b/a.gif
echo '{}' >photos/labels.json
learn -d photos
code 0
err_has 'note: 3 files are skipped, as they are no images or lie in deeper folders: photos/a/Thumbs.db, photos/b/a.gif, photos/labels.json'
cp "$images/expected.npz" photos/b/x.npz
learn -d photos
err_has 'note: 4 files are skipped'
rm photos/b/x.npz
# So are images in deeper folders.
mkdir photos/a/below
cp "$images/plain.bmp" photos/a/below
learn -d photos
err_has 'note: 4 files are skipped, as they are no images or lie in deeper folders: photos/a/below/plain.bmp, '
mkdir photos/a/below/further
mv photos/a/below/plain.bmp photos/a/below/further
ln -s .. photos/a/below/up
ln -s . photos/a/self
learn -d photos
err_has 'note: 4 files are skipped, as they are no images or lie in deeper folders: photos/a/below/further/plain.bmp, '
rm -r photos/a/below photos/a/self
mkdir -p parts/train
cp -r photos/a photos/b parts/train
learn -d parts
code 2
err_has 'parts: there are no images in its folders, only in folders of these. Name one of them, such as parts/train'
rm -r parts
# A broken file with the extension of an image is refused by name.
cp cut.jpg photos/b/cut.jpg
learn -d photos
code 2
err_has 'photos/b/cut.jpg: '
printf '<html></html>' >photos/b/cut.jpg
learn -d photos
code 2
err_has 'photos/b/cut.jpg: this is an HTML page'
rm photos/b/cut.jpg
# A model that was trained on them runs on one, with NHWC, too.
run run t.onnx -i "image=@$images/cmyk.jpg"
code 0
err_has 'is resized to'
# Ranges for quantizing come from images without classes, too.
for source in photos photos/a "$images/turned_jpg_*.jpg"; do
    run quantize t.onnx -d "$source" -o q.onnx
    code 0
done
run quantize t.onnx -d "$images/plain.bmp" -d "$images/cmyk.jpg" -o q.onnx
code 0
learn -d photos/a
code 2
err_has 'these images have none. Name the folder that contains a folder of images for each class'

finish
