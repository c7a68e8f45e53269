package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/cmd/internal/prices"
	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/normalize"
	"github.com/icyloom/icyloom/projections"
)

// gatewayOptions says in the gateway's words what the configuration says.
func gatewayOptions(c config.Config, h home.Home, env func(string) string) (gateway.Options, error) {
	table, err := prices.Load(h.Prices())
	if err != nil {
		return gateway.Options{}, err
	}
	g := c.Gateway
	o := gateway.Options{
		Prices: table, MaxBodyBytes: int64(g.MaxBodyBytes),
		FirstByteTimeout: g.FirstByteTimeout.D(), ChunkTimeout: g.ChunkTimeout.D(), ClientTimeout: g.ClientTimeout.D(),
		MaxInFlightBytes: int64(g.MaxInFlightBytes), Failover: gateway.Failover(g.Failover),
		Breaker:  gateway.Breaker{Failures: g.Breaker.Failures, Reset: g.Breaker.Reset.D()},
		Defaults: map[gateway.Family]string{},
		Cache: gateway.CacheOptions{
			Match: cache.Match(c.Cache.Match), Shadow: cache.Match(c.Cache.Shadow), TTL: c.Cache.TTL.D(), Scope: cache.Scope(c.Cache.Scope),
			KeepPrompts: c.Cache.KeepPrompts, ToolCalls: c.Cache.ToolCalls, Coalesce: c.Cache.Coalesce,
		},
	}
	if o.Cache.Match == cache.MatchICY || o.Cache.Shadow == cache.MatchICY {
		rules, err := normalize.Parse(data.Normalization())
		if err != nil {
			return gateway.Options{}, err
		}
		o.Cache.ICY = cache.Normalization{Text: rules.Text, Literal: rules.Literal, Version: rules.Version()}
	}
	for family, name := range g.Defaults {
		if name != "" {
			o.Defaults[gateway.Family(family)] = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		up := gateway.Upstream{Name: name, BaseURL: u.BaseURL, Family: gateway.Family(u.Family), Priority: u.Priority, Models: u.Models, Unversioned: u.Unversioned, Auth: gateway.Auth(u.Auth)}
		for _, family := range u.Also {
			up.Also = append(up.Also, gateway.Family(family))
		}
		if u.APIKeyEnv != "" {
			up.APIKey = strings.TrimSpace(env(u.APIKeyEnv))
		}
		o.Upstreams = append(o.Upstreams, up)
	}
	return o, nil
}

// settings are the lines of the configuration that the console shows.
func (d *Daemon) settings() []projections.Setting {
	c := d.o.Config
	log := "embedded"
	if c.Ledger.NATS.URL != "" {
		log = "external NATS"
	}
	return []projections.Setting{
		{Name: "configuration", Value: d.o.Source.String()},
		{Name: "upstreams", Value: strings.Join(slices.Sorted(maps.Keys(c.Upstreams)), ", ")},
		{Name: "cache.match", Value: c.Cache.Match},
		{Name: "cache.scope", Value: c.Cache.Scope},
		{Name: "cache.ttl", Value: c.Cache.TTL.String()},
		{Name: "cache.keep_prompts", Value: fmt.Sprint(c.Cache.KeepPrompts)},
		{Name: "cache.max_bytes", Value: fmt.Sprint(int64(c.Cache.MaxBytes))},
		{Name: "log", Value: log},
	}
}
