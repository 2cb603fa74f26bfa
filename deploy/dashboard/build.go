package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	tables "github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// The size of a panel, in units of Grafana's grid, which is 24 wide.
const (
	panelWidth  = 6
	panelHeight = 8
)

// source is the Prometheus that the reader of the dashboard chooses.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// build makes the dashboard. It is one of Grafana's first schema, which each Grafana can import; the second one needs a
// version that many do not have yet.
func build(rows []row) (any, error) {
	b := dashboard.NewDashboardBuilder("Understudy") //nolint:staticcheck // see above
	b.Uid("understudy").
		Description("Decisions, policies, experiments and the admin API of Understudy. Made by deploy/dashboard; a change by hand is lost.").
		Tags([]string{"understudy"}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Refresh("1m").
		Time("now-3h", "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(valuesOf("job", "Job", "understudy_ready")).
		WithVariable(valuesOf("instance", "Instance", `understudy_ready{job=~"$job"}`)).
		WithVariable(valuesOf("policy", "Policy", `understudy_decisions_total{`+chosen+`}`))
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, r := range rows {
		b.WithRow(dashboard.NewRowBuilder(r.title).Id(next()))
		for _, c := range r.charts {
			b.WithPanel(c.panel(next()))
		}
	}
	return b.Build()
}

// valuesOf is a variable with the values that a label has in some series, of which all are chosen at first. The name of the
// label is the variable's.
func valuesOf(name, label, series string) *dashboard.QueryVariableBuilder {
	query := "label_values(" + series + ", " + name + ")"
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{String: &query}).
		Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
			Value:    dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

// panel makes the panel of a chart, with a number of its own.
func (c chart) panel(id uint32) cog.Builder[dashboard.Panel] {
	if c.kind == table {
		p := tables.NewPanelBuilder().Id(id).
			Title(c.title).Description(c.about).Datasource(source).Unit(c.unit).Span(panelWidth).Height(panelHeight)
		for _, q := range c.queries {
			p.WithTarget(q.target().Instant().Format(prometheus.PromQueryFormatTable))
		}
		return p
	}
	p := timeseries.NewPanelBuilder().Id(id).
		Title(c.title).Description(c.about).Datasource(source).Unit(c.unit).Span(panelWidth).Height(panelHeight).
		ShowPoints(common.VisibilityModeNever).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true))
	if c.unit != "s" { // what is left until an expiry becomes negative
		p.Min(0)
	}
	if c.kind == stacked {
		p.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(30)
	}
	for i, q := range c.queries {
		p.WithTarget(q.target().RefId(string(rune('A' + i))))
	}
	return p
}

// target is the query of a panel.
func (q query) target() *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source).Expr(q.expr).LegendFormat(q.legend)
}
