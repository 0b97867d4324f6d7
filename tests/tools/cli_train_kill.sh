# A training that is killed again and again, and resumed, ends with the same bits as one that is not.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits
arguments=(train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy
    --init he --optimizer adam:lr=3e-3 --schedule plateau:patience=0 --validation 0.1 --epochs 20 -b 128)
last='xcvm train'
"$xcvm" "${arguments[@]}" -o whole.onnx --log whole.csv >"$work/.out" 2>"$work/.err"
status=$?
code 0

# Moments that differ from run to run of this script, and are told if it fails.
seed=$(date +%N | sed 's/^0*//')
kills=0
done=
for round in $(seq 1 60); do
    # The process itself, not a shell around it, is what is killed.
    "$xcvm" "${arguments[@]}" -o killed.onnx --log killed.csv --checkpoint saved --checkpoint-every 1 --keep 2 --resume \
        >"$work/.out" 2>"$work/.err" &
    pid=$!
    if [ "$kills" -ge 20 ]; then
        wait "$pid"
        status=$?
        code 0
        done=yes
        break
    fi
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    sleep "0.$(printf '%03d' $((20 + seed / 65536 % 150)))"
    if kill -9 "$pid" 2>/dev/null; then kills=$((kills + 1)); fi
    wait "$pid" 2>/dev/null
    [ "$(ls saved 2>/dev/null | grep -c '\.safetensors$')" -le 3 ] || bad "more checkpoints than asked for after round $round"
done
check test "$done" = yes
check test "$kills" -ge 20
check cmp whole.onnx killed.onnx
check cmp whole.csv killed.csv
check test -z "$(ls saved | grep '\.new$')"
finish
