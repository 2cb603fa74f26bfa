package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/reportview"
)

const (
	// reportsAtOnce is how many reports are read at the same time for a list.
	reportsAtOnce = 8
	// reportTime bounds what one may take: a list is worth more than its numbers.
	reportTime = 2 * time.Second
)

// numbers reads the reports of the experiments that are being previewed: one for each, nil
// for all others, and where it cannot be read.
func (c *Client) numbers(ctx context.Context, experiments []*adminpb.PolicyExperiment) []*adminpb.Report {
	reports := make([]*adminpb.Report, len(experiments))
	turns := make(chan struct{}, reportsAtOnce)
	var reading sync.WaitGroup
	for i, e := range experiments {
		if e.PreviewMetadata.GetState() != adminpb.PolicyPreviewMetadata_ACTIVE {
			continue
		}
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, reportTime)
			defer cancel()
			if r, err := c.report(ctx, e.Name, nil); err == nil {
				reports[i] = r
			}
		})
	}
	reading.Wait()
	return reports
}

// numbersOf are the columns of a list: the requests compared, and how many differ.
func numbersOf(r *adminpb.Report) (requests, differ string) {
	if r == nil {
		return "-", "-"
	}
	return reportview.Count(r.RequestCount), reportview.Differing(r)
}

// noteNumbers says on standard error what the preview of an experiment has shown so far,
// beside the resource on standard output, which `apply` reads again.
func (c *Client) noteNumbers(ctx context.Context, e *adminpb.PolicyExperiment) {
	if r := c.numbers(ctx, []*adminpb.PolicyExperiment{e})[0]; r != nil {
		fmt.Fprintf(c.Err, "%[1]s: %[2]s; see `understudy report %[1]s`\n", c.short(e.Name), reportview.Summary(r))
	}
}
