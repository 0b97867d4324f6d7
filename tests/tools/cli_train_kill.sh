# A training that is killed again and again, and resumed, ends with the same bits as one that is not.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits
arguments=(train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy
    --init he --optimizer adam:lr=3e-3 --schedule plateau:patience=0 --validation 0.1 --epochs 8 -b 128)
last='xcvm train'
milliseconds() { date +%s%3N; }
began=$(milliseconds)
"$xcvm" "${arguments[@]}" -o whole.onnx --log whole.csv >"$work/.out" 2>"$work/.err"
status=$?
code 0
# Up to a third of the current time of the whole training on this machine.
span=$((($(milliseconds) - began) / 3 + 1))

# Every training that reaches its end must have ended as the whole one; where that comes before the twelfth kill, another begins.
ended() {
    code 0
    check cmp whole.onnx killed.onnx
    check cmp whole.csv killed.csv
    check test -z "$(ls saved | grep '\.new$')"
    rm -rf saved killed.onnx killed.csv
}

# Random moments, which a failure prints.
seed=$(date +%N | sed 's/^0*//')
kills=0
for round in $(seq 1 200); do
    # Kills the process itself, not a shell around it.
    resume=()
    [ -z "$(ls saved/step-*.safetensors 2>/dev/null)" ] || resume=(--resume)
    "$xcvm" "${arguments[@]}" -o killed.onnx --log killed.csv --checkpoint saved --checkpoint-every 1 --keep 2 "${resume[@]}" \
        >"$work/.out" 2>"$work/.err" &
    pid=$!
    if [ "$kills" -lt 12 ]; then
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        pause=$((seed / 65536 % span))
        sleep "$((pause / 1000)).$(printf '%03d' $((pause % 1000)))"
        kill -9 "$pid" 2>/dev/null
    fi
    wait "$pid" 2>/dev/null
    status=$?
    [ "$(ls saved 2>/dev/null | grep -c '\.safetensors$')" -le 3 ] || bad "more checkpoints than asked for after round $round"
    if [ "$status" = 137 ]; then
        kills=$((kills + 1))
        continue
    fi
    ended
    [ "$kills" -lt 12 ] || break
done
last="xcvm train (pauses up to $span ms, seed $seed)"
check test "$kills" -ge 12
finish
