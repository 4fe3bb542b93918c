package pebble
import ("testing";"fmt";"time")
func TestScratch(t *testing.T){
 s,_:=Open(t.TempDir(),Options{})
 for i:=0;i<300;i++{ rows:=benchRows(1000,1750000000000,30*24*3600*1000); t0:=time.Now(); s.Apply(t.Context(),creates(rows)); if i%50==49 {m:=s.db.Metrics(); fmt.Println(i,time.Since(t0),"filter",m.Filter,"L0",m.Levels[0].TablesCount,m.Levels[0].Sublevels,"readamp",m.ReadAmp(),"cache",m.BlockCache.Hits,m.BlockCache.Misses, "mem",m.MemTable.Count,m.MemTable.Size>>20)}}
 fmt.Println(s.db.Metrics().String())
 s.Close()
}
