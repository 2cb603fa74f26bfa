package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	"understudy/admin/redisstore"
	evidencereport "understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// evidenceReport is what it costs that many nodes publish evidence, and how soon it is read.
type evidenceReport struct {
	Nodes       int `json:"nodes"`
	Experiments int `json:"experiments"`
	Groups      int `json:"groups"`
	// Value is the size of what a node publishes of an experiment, in bytes.
	Value int `json:"value_bytes"`
	// Writes is the number of reports and publications in a second.
	Writes float64 `json:"writes_per_second"`
	// Redis is its processor time in a second of that.
	Redis time.Duration `json:"redis_cpu_ns_per_second"`
	// Memory is what Redis took for an experiment, in bytes.
	Memory int64 `json:"memory_per_experiment"`
	// Reads is how long it took to make a report, while nodes publish.
	Reads []time.Duration `json:"reads_ns"`
}

// The size of the simulated location, and of what its nodes publish.
const (
	evidenceNodes       = 1000
	evidenceExperiments = 3
	evidenceGroups      = 200
	// evidenceBytes bounds what a node publishes of an experiment.
	evidenceBytes = evidence.MaxRecord
	// evidenceClients is the number of nodes that share the connections of one process.
	evidenceClients = 20
	// evidencePause is the time between two reads, of one experiment after the other.
	evidencePause = 300 * time.Millisecond
)

// measureEvidence has nodes that are simulated publish evidence on a Redis of their own, in
// the pace of real ones, and reads it meanwhile as GetReport does.
func (s *scaling) measureEvidence(ctx context.Context) (_ *evidenceReport, err error) {
	folder, err := os.MkdirTemp(s.folder, "e")
	if err != nil {
		return nil, err
	}
	redis, url, err := startRedis(ctx, s.redis, folder, s.servers)
	if err != nil {
		return nil, err
	}
	defer redis.stop()
	f := &evidenceFleet{values: make([][]byte, evidenceGroups)}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.open(ctx, url); err != nil {
		return nil, err
	}
	before, err := residentMemory(redis.pid())
	if err != nil {
		return nil, err
	}
	s.progress(fmt.Sprintf("%d nodes publish for the first time", evidenceNodes))
	if err := f.all(ctx); err != nil {
		return nil, err
	}
	after, err := residentMemory(redis.pid())
	if err != nil {
		return nil, err
	}
	r := &evidenceReport{
		Nodes: evidenceNodes, Experiments: evidenceExperiments, Groups: evidenceGroups, Value: len(f.values[0]),
		Memory: (after - before) / evidenceExperiments,
	}
	s.progress("nodes publish in their pace")
	if err := f.pace(ctx, redis, 2*s.Duration, r); err != nil {
		return nil, err
	}
	s.progress("reading meanwhile")
	return r, f.read(ctx, 2*s.Duration, r)
}

// evidenceFleet is simulated nodes.
type evidenceFleet struct {
	// stores are those of nodes: a number of nodes share one.
	stores []*redisstore.Store
	names  []admin.EvidenceName
	etag   string
	// values are what is published, by turns.
	values [][]byte
	serial atomic.Int64
}

// open stores the experiments and connects the nodes.
func (f *evidenceFleet) open(ctx context.Context, url string) error {
	for range evidenceClients {
		store, err := redisstore.Open(url)
		if err != nil {
			return err
		}
		f.stores = append(f.stores, store)
	}
	policy := benchLocation + "/policies/" + benchPolicy
	txn := admin.Txn{ID: rand.Text(), Project: "bench"}
	f.etag = "etag"
	for i := range evidenceExperiments {
		name := admin.EvidenceName{Experiment: admin.Key(fmt.Sprintf("%s/experiments/e%d", policy, i)), UID: rand.Text()}
		put, err := admin.NewPut(string(name.Experiment), f.etag, &adminpb.PolicyExperiment{
			Name: string(name.Experiment), Uid: name.UID, Etag: f.etag,
		})
		if err != nil {
			return err
		}
		txn.Writes, f.names = append(txn.Writes, put), append(f.names, name)
	}
	for i := range f.values {
		var err error
		if f.values[i], err = evidenceValue(i, f.etag); err != nil {
			return err
		}
	}
	_, err := f.stores[0].Commit(ctx, txn)
	return err
}

func (f *evidenceFleet) close() error {
	var errs []error
	for _, s := range f.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// publish publishes what a node has counted of all experiments.
func (f *evidenceFleet) publish(ctx context.Context, node int) error {
	serial := f.serial.Add(1)
	var evidence []authz.PublishedEvidence
	for i, name := range f.names {
		evidence = append(evidence, authz.PublishedEvidence{
			Experiment: string(name.Experiment), UID: name.UID, Tally: fmt.Sprintf("tally-%020d-%d", node, i),
			Serial: serial, Value: f.values[(node+i)%len(f.values)],
		})
	}
	_, err := f.stores[node%len(f.stores)].Publish(ctx, evidenceNode(node), evidence)
	return err
}

// report reports a node itself.
func (f *evidenceFleet) report(ctx context.Context, node int) error {
	_, err := f.stores[node%len(f.stores)].Heartbeat(ctx, &adminpb.Node{
		Name: evidenceNode(node), Policies: []string{benchLocation + "/policies/" + benchPolicy},
	})
	return err
}

func evidenceNode(i int) string { return fmt.Sprintf("%s/nodes/n%04d", benchLocation, i) }

// all has each node report and publish once.
func (f *evidenceFleet) all(ctx context.Context) error {
	for node := range evidenceNodes {
		if err := errors.Join(f.report(ctx, node), f.publish(ctx, node)); err != nil {
			return err
		}
	}
	return nil
}

// evidenceRate is the number of reports, and that of publications, in a second: see
// publisher.Pace.
const evidenceRate = 250

// run has nodes report and publish in their pace until ctx is done; it returns the number
// of writes.
func (f *evidenceFleet) run(ctx context.Context) (writes int, err error) {
	ticker := time.NewTicker(time.Second / evidenceRate)
	defer ticker.Stop()
	var running sync.WaitGroup
	failed := make(chan error, 1)
	for node := 0; ; node = (node + 1) % evidenceNodes {
		select {
		case <-ctx.Done():
			running.Wait()
			return writes, nil
		case err := <-failed:
			return writes, err
		case <-ticker.C:
		}
		writes += 2
		running.Go(func() {
			if err := errors.Join(f.report(ctx, node), f.publish(ctx, node)); err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
}

// pace measures the processor time of Redis while nodes write in their pace.
func (f *evidenceFleet) pace(ctx context.Context, redis *process, duration time.Duration, r *evidenceReport) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	before, err := cpuTime(redis.pid())
	if err != nil {
		return err
	}
	begin := time.Now()
	writes, err := f.run(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	after, err := cpuTime(redis.pid())
	r.Writes, r.Redis = float64(writes)/took, time.Duration(float64(after-before)/took)
	return err
}

// evidenceValue is what a node has counted: as many of the groups as there is room for, one
// more or less than another node.
func evidenceValue(node int, etag string) ([]byte, error) {
	e := &evidencepb.Evidence{
		ExperimentEtag: etag, PublishTime: timestamppb.Now(), PublishInterval: durationpb.New(4 * time.Second),
		Pairs: []*evidencepb.Pair{{PolicyEtag: "live", Counts: &evidencepb.Counts{BothAllow: 1000}}},
	}
	pair := e.Pairs[0]
	for i := range evidenceGroups {
		n := (i + node) % evidenceGroups
		// More than 16 children of a place would be folded.
		path := fmt.Sprintf("/service%d/resources%d/*", n%14, n/14)
		pair.Endpoints = append(pair.Endpoints, &evidencepb.Endpoint{Method: "GET", Pattern: path, Count: 100})
		pair.Groups = append(pair.Groups, &evidencepb.Group{
			Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: path, Reason: "no such role", PolicyStatus: 200,
			ExperimentStatus: 403, Count: int64(1 + n%7), FirstTime: timestamppb.Now(), LastTime: timestamppb.Now(),
		})
		if proto.Size(e) > evidenceBytes {
			pair.Endpoints, pair.Groups = pair.Endpoints[:i], pair.Groups[:i]
			break
		}
	}
	return proto.Marshal(e)
}

// read reads the evidence of each experiment again and again while nodes publish, and makes a
// report of it, as GetReport does.
func (f *evidenceFleet) read(ctx context.Context, duration time.Duration, r *evidenceReport) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	writing := make(chan error, 1)
	go func() {
		_, err := f.run(ctx)
		writing <- err
	}()
	ticker := time.NewTicker(evidencePause)
	defer ticker.Stop()
	for i := 0; ; i++ {
		begin := time.Now()
		if err := f.readOne(context.WithoutCancel(ctx), f.names[i%len(f.names)]); err != nil {
			return err
		}
		r.Reads = append(r.Reads, time.Since(begin))
		select {
		case err := <-writing:
			return err
		case <-ticker.C:
		}
	}
}

// readOne makes one report.
func (f *evidenceFleet) readOne(ctx context.Context, name admin.EvidenceName) error {
	read, err := f.stores[0].Evidence(ctx, name)
	if err != nil {
		return err
	}
	published := make([]evidencereport.Published, len(read.Tallies))
	for i, t := range read.Tallies {
		published[i] = evidencereport.Published{Node: t.Node, Value: t.Value, Age: t.Age}
	}
	collected, err := evidencereport.Collect("", f.etag, read.Settled, published)
	if err != nil {
		return err
	}
	made := evidencereport.Build(evidencereport.Input{PolicyEtag: "live", ExperimentEtag: f.etag, Evidence: collected.Evidence})
	if made.GetRequestCount() != 1000*evidenceNodes {
		return fmt.Errorf("the report has %d requests of %d", made.GetRequestCount(), 1000*evidenceNodes)
	}
	return nil
}

// write writes a line of the report, if there is one.
func (r *evidenceReport) write(w io.Writer) {
	if r == nil {
		return
	}
	reads := slices.Sorted(slices.Values(r.Reads))
	fmt.Fprintf(w, "\n%d simulated sidecars publish %s of each of %d experiments: %.0f writes a second, **%.1f %%** of a processor for Redis, "+
		"**%.1f MB** of its memory for an experiment. Reading a report: median **%s**, least %s; %d reads.\n",
		r.Nodes, inBytes(r.Value), r.Experiments, r.Writes, 100*r.Redis.Seconds(), float64(r.Memory)/1e6,
		inMillis(reads[len(reads)/2]), inMillis(reads[0]), len(reads))
}
