package control_test

import (
	"context"
	"errors"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/projections"
)

// cacheService answers with what it was asked.
func cacheService() admin.Ops {
	return admin.Ops{
		List: func(_ context.Context, r admin.ListRequest) (admin.ListReport, error) {
			return admin.ListReport{Total: int64(r.Limit), Entries: []projections.CachedAnswer{{Key: r.Key}}}, nil
		},
		Stats: func(_ context.Context, w projections.Window) (admin.StatsReport, error) {
			return admin.StatsReport{MaxBytes: 9, CacheStats: projections.CacheStats{Window: w}}, nil
		},
		Show: func(_ context.Context, r admin.ShowRequest) (admin.ShowReport, error) {
			if r.Key == "short" {
				return admin.ShowReport{}, admin.UsageError("write more of it")
			}
			return admin.ShowReport{Said: r.Key}, nil
		},
		Explain: func(_ context.Context, r admin.ExplainRequest) (admin.ExplainReport, error) {
			return admin.ExplainReport{Words: r.Event}, nil
		},
		Search: func(_ context.Context, r admin.SearchRequest, progress func(admin.Progress)) (admin.SearchReport, error) {
			progress(admin.Progress{Done: 1, Total: 2})
			return admin.SearchReport{Matches: []admin.Match{{In: r.Text}}}, nil
		},
		Purge: func(ctx context.Context, r admin.PurgeRequest, progress func(admin.Progress)) (admin.PurgeReport, error) {
			progress(admin.Progress{Done: 3, Total: 4})
			if r.Model == "endless" {
				<-ctx.Done()
				return admin.PurgeReport{}, ctx.Err()
			}
			if r.Model == "full" {
				return admin.PurgeReport{}, errors.New("disk full")
			}
			return admin.PurgeReport{Confirmed: r.Confirm, Purged: 3}, nil
		},
	}
}

func TestTheCacheIsAskedOverTheSocket(t *testing.T) {
	ops, err := dial(t, socket(t), service()).Cache()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if r, err := ops.List(ctx, admin.ListRequest{Key: "k", Limit: 5}); err != nil || r.Total != 5 || r.Entries[0].Key != "k" {
		t.Errorf("list: %+v, %v", r, err)
	}
	if r, err := ops.Stats(ctx, projections.Window7d); err != nil || r.MaxBytes != 9 || r.Window != projections.Window7d {
		t.Errorf("stats: %+v, %v", r, err)
	}
	if r, err := ops.Show(ctx, admin.ShowRequest{Key: "k"}); err != nil || r.Said != "k" {
		t.Errorf("show: %+v, %v", r, err)
	}
	if r, err := ops.Explain(ctx, admin.ExplainRequest{Event: "e"}); err != nil || r.Words != "e" {
		t.Errorf("explain: %+v, %v", r, err)
	}
	var at admin.Progress
	if r, err := ops.Search(ctx, admin.SearchRequest{Text: "heron"}, func(p admin.Progress) { at = p }); err != nil || r.Matches[0].In != "heron" || at.Total != 2 {
		t.Errorf("search: %+v, %v, progress %+v", r, err, at)
	}
	r, err := ops.Purge(ctx, admin.PurgeRequest{Selection: admin.Selection{Model: "m"}, Confirm: true}, func(p admin.Progress) { at = p })
	if err != nil || !r.Confirmed || r.Purged != 3 || at.Total != 4 {
		t.Errorf("purge: %+v, %v, progress %+v", r, err, at)
	}
	if _, err := ops.Show(ctx, admin.ShowRequest{Key: "short"}); err == nil || err.Error() != "write more of it" {
		t.Errorf("show: %v", err)
	} else if _, usage := errors.AsType[admin.UsageError](err); !usage {
		t.Errorf("show: %T is no usage error any more", err)
	}
	if _, err := ops.Purge(ctx, admin.PurgeRequest{Selection: admin.Selection{Model: "full"}}, nil); err == nil || err.Error() != "disk full" {
		t.Errorf("purge: %v", err)
	}
}

// An asker that leaves ends what it asked for.
func TestAPurgeEndsWithItsAsker(t *testing.T) {
	s, ended := service(), make(chan error, 1)
	purge := s.Cache.Purge
	s.Cache.Purge = func(ctx context.Context, r admin.PurgeRequest, progress func(admin.Progress)) (admin.PurgeReport, error) {
		report, err := purge(ctx, r, progress)
		ended <- err
		return report, err
	}
	ops, err := dial(t, socket(t), s).Cache()
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	_, err = ops.Purge(ctx, admin.PurgeRequest{Selection: admin.Selection{Model: "endless"}}, func(admin.Progress) { leave() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the asker: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the daemon: %v", err)
	}
}
