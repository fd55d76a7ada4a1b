# The phase torch: the same shapes in PyTorch on the same card, and our logits beside its. Sourced by
# run.sh.

peer() { must python3 "$here/torch_peer.py" "$@" $(pick "" "--tiny --device cpu"); }

torch_time() { # WHAT FLAGS...
    peer "$@" --model "$here/../peers/train_torch.py"
    take_figures torch_
}

# Float64's logits are the measure of both. Our float32 has to be as close as float32 is.
torch_logits() { # BACKEND
    local tokens=64
    draw_gpt2 2
    measure logits "$plugin" "$1" "$drawn" $tokens "$work/$1.logits"
    peer logits --checkpoint "$drawn" --tokens $tokens --ours "$work/$1.logits"
    take_figures "${1//-/_}_"
    awk '$1 == "logits_difference" { far = $2 > 1e-4; n++ } END { exit far || n != 1 }' "$work/$phase.last" ||
        fail "logits of $1 differ from PyTorch's: $(paste -sd ' ' "$work/$phase.last")"
}

phase_torch() {
    needs_gpu
    python3 -c 'import torch' 2>/dev/null || skip "python3 here has no torch"
    part 25 torch_logits cuda
    part 25 torch_logits cuda-exact
    part 30 torch_time minigpt-eager
    part 80 torch_time minigpt-compiled
    part 60 torch_time gpt2-eager
    part 40 torch_time gpt2-decode
    part 50 torch_time xl-decode
    part 150 torch_time gpt2-compiled
    end_parts
}
