package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// agent is a coding agent that runs without a person.
type agent struct {
	bin  string
	args []string // before the prompt
	env  []string
	dir  string // where it works
}

// newAgent finds the program of an npm package, or skips the test. It is given
// a home and a folder of its own.
func newAgent(t *testing.T, pkg, program string) *agent {
	t.Helper()
	sealed(t)
	a := &agent{bin: filepath.Join(nodeModules(t, pkg), pkg, program), dir: t.TempDir()}
	a.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "LANG=C.UTF-8"}
	return a
}

// run gives the agent a prompt and returns what it printed. It must leave with 0
// within a minute.
func (a *agent) run(t *testing.T, prompt string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.bin, append(slices.Clone(a.args), prompt)...)
	cmd.Dir, cmd.Env = a.dir, a.env
	// What it starts itself ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if kill := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) {
		t.Errorf("%s: what it left behind: %v", a.bin, kill)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(a.bin), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

// claudeCode is Claude Code before a gateway.
func claudeCode(t *testing.T, gateway string) *agent {
	t.Helper()
	a := newAgent(t, "@anthropic-ai/claude-code-linux-x64", "claude")
	a.args = []string{"-p"}
	a.env = append(a.env, "ANTHROPIC_BASE_URL="+gateway, "ANTHROPIC_API_KEY=sk-ant-e2e",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	return a
}

// What codex is told of a gateway.
const (
	// noWebSearch makes Codex offer no tool that the provider runs: what such a
	// tool may find is new each time, so these requests pass the cache by.
	noWebSearch = `web_search = "disabled"`
	withKey     = "name = \"gw\"\nenv_key = \"FAKE_KEY\""
	// withLogin has Codex take the gateway for the provider that its user is logged
	// in at: then it compresses its requests.
	withLogin = "name = \"OpenAI\"\nrequires_openai_auth = true"
)

// codex is Codex before a gateway; more are further lines of its configuration,
// and provider how it speaks to the gateway.
func codex(t *testing.T, gateway, more, provider string) *agent {
	t.Helper()
	a := newAgent(t, "@openai/codex-linux-x64", "vendor/x86_64-unknown-linux-musl/bin/codex")
	home := t.TempDir()
	config := fmt.Sprintf(`model_provider = "gw"
model = "gpt-5-codex"
check_for_update_on_startup = false
chatgpt_base_url = "http://127.0.0.1:9"
%[2]s
[analytics]
enabled = false
[features]
apps = false
[model_providers.gw]
base_url = "%[1]s/v1"
wire_api = "responses"
%[3]s
`, gateway, more, provider)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if provider == withLogin {
		login(t, home)
	}
	a.args = []string{"exec", "--skip-git-repo-check", "--sandbox", "read-only"}
	a.env = append(a.env, "CODEX_HOME="+home, "FAKE_KEY=sk-e2e")
	return a
}

// login writes the login of an invented user.
func login(t *testing.T, home string) {
	t.Helper()
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(encode(v)) }
	account := object{"chatgpt_plan_type": "pro", "chatgpt_account_id": "account", "chatgpt_user_id": "user"}
	token := part(object{"alg": "none", "typ": "JWT"}) + "." + part(object{
		"email": "nobody@example.com", "exp": time.Now().Add(24 * time.Hour).Unix(), "https://api.openai.com/auth": account,
	}) + "." + part("unsigned")
	auth := encode(object{
		"auth_mode": "chatgpt", "last_refresh": time.Now().UTC().Format(time.RFC3339),
		"tokens": object{"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account"},
	})
	if err := os.WriteFile(filepath.Join(home, "auth.json"), auth, 0o600); err != nil {
		t.Fatal(err)
	}
}

// agentAnswer is what the fake upstream says to a prompt.
func agentAnswer(body []byte) sample {
	s := sample{ID: "agent", Text: "This is the answer to something else.", Input: 40, Read: 60, Output: 9}
	for _, n := range []string{"first", "second"} {
		if bytes.Contains(body, []byte("The "+n+" question.")) {
			s.ID, s.Text = n, "This is the "+n+" answer, with ümlauts."
		}
	}
	return s
}

// agentUpstream answers agents as both APIs do.
func agentUpstream(t *testing.T, answer func(body []byte) sample) *upstream {
	return newUpstream(t, func(w http.ResponseWriter, c call) {
		if api := c.api(); c.method == http.MethodPost && (api == events.APIMessages || api == events.APIResponses) {
			body := unpack(t, c.header.Get("Content-Encoding"), c.body)
			s := answer(body)
			s.Model = text(decode(body)["model"])
			reply(w, form(streams(body)), s.render(api, form(streams(body))))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
}
