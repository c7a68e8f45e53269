package cache

import "crypto/sha256"

// input is one of the texts, or lists of tokens, that an embeddings request asks
// for: what is cached by itself.
type input struct {
	from, to int // where it stands in the body
	digest   Digest
}

// inputs are those of one request.
type inputs struct {
	all    []input
	chosen []int // to be forwarded; nil: all
	// tied: what is answered to one may depend on the others, or the list is one
	// that only its API can judge.
	tied bool
}

// tie looks at a parameter of the request: of those that are not known to say the
// same about each input by itself, some have a text's neighbours count. Here a
// list of what is known is the safe one. Talks is set for other requests.
func (in *inputs) tie(talks bool, quoted []byte) {
	if talks {
		return
	}
	switch string(quoted[1 : len(quoted)-1]) {
	case "encoding_format", "dimensions", "input_type", "task", "truncate", "truncation", "normalized", "embedding_type", "output_dtype", "output_dimension":
	default:
		in.tied = true
	}
}

// readInputs reads the input of an embeddings request: one, or a list of them.
func (r *Request) readInputs(start int) error {
	r.has |= hasMessages
	if r.peek() != '[' || r.ofTokens() {
		return r.input(start)
	}
	if err := r.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := r.more(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.input(start); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

// ofTokens tells whether the list that is next is one of numbers: one input.
func (r *Request) ofTokens() bool {
	ahead := scanner{in: r.in, pos: r.pos + 1}
	c := ahead.peek()
	return c >= '0' && c <= '9'
}

func (r *Request) input(start int) error {
	in := input{from: r.skipBlank()}
	if err := r.component(start, placeData, "", &in.digest, nil); err != nil {
		return err
	}
	in.to = r.pos
	r.inputs.all = append(r.inputs.all, in)
	if r.in[in.from] != r.in[r.inputs.all[0].from] || r.in[in.from] != '"' && r.in[in.from] != '[' {
		r.inputs.tied = true // texts and tokens, or what is neither: without one of them it would be another request
	}
	r.messages = append(r.messages, in.digest)
	return nil
}

// Inputs is the number of inputs of an embeddings request, 0 where they cannot be
// answered one by one.
func (r *Request) Inputs() int {
	if r.inputs.tied {
		return 0
	}
	return len(r.inputs.all)
}

// Input is one of them as it stands in the body.
func (r *Request) Input(i int) []byte { return r.in[r.inputs.all[i].from:r.inputs.all[i].to] }

// InputKeys returns the key of each input: the same for the same input in the
// same surroundings, whatever others stand beside it.
func (r *Request) InputKeys(s Surroundings) []Key {
	all := r.messages
	r.messages = nil
	base, _ := r.Keys(s)
	r.messages = all
	keys := make([]Key, len(r.inputs.all))
	b := append([]byte("input"), base[:]...)
	for i := range r.inputs.all {
		keys[i] = sha256.Sum256(append(b, r.inputs.all[i].digest[:]...))
	}
	return keys
}

// Choose has Edited forward only some of the inputs, by their places in ascending
// order; nil stands for all.
func (r *Request) Choose(some []int) { r.inputs.chosen = some }

// choice is the edit that leaves only the chosen inputs.
func (r *Request) choice() (at cut, put []byte) {
	if r.inputs.chosen == nil {
		return cut{}, nil
	}
	for n, i := range r.inputs.chosen {
		if n > 0 {
			put = append(put, ',')
		}
		put = append(put, r.Input(i)...)
	}
	return cut{r.inputs.all[0].from, r.inputs.all[len(r.inputs.all)-1].to}, put
}
